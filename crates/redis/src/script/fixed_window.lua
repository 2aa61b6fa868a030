-- Fixed window: a count that starts again at every boundary.
--
-- plan  limit, per, at (of the receipt), three boundaries; for a calendar, per is 0. over is how far
--       refusals may bring the count; of a refund, from where on something may have been forgiven
-- value the window's number (or start, for a calendar) and ten digits of what was used

local TWO_YEARS = 63244800000000
-- The most that is counted.
local COUNT_MAX = 4294967295

local fixed_window = {}

function fixed_window.plan(plan, field)
  plan.limit = ARGV[field] + 0
  plan.per = ARGV[field + 1] + 0
  plan.at = ARGV[field + 2] + 0
  if plan.per == 0 then
    plan.start = ARGV[field + 3] + 0
    plan.middle = ARGV[field + 4] + 0
    plan.finish = ARGV[field + 5] + 0
  end
end

-- The start of the window that holds `now`.
local function start_of(plan, now)
  if plan.per ~= 0 then return now - now % plan.per end
  if now < plan.middle then return plan.start end
  return plan.middle
end

-- The end of the window that starts at `start`.
local function end_of(plan, start)
  if plan.per ~= 0 then return start + plan.per end
  if start < plan.middle then return plan.middle end
  return plan.finish
end

-- Whether `now` is past all windows that the caller gave.
local function is_overdue(plan, now)
  return plan.per == 0 and plan.finish <= now
end

-- The window, and what is used of it.
local function read(plan, value, now)
  local this = start_of(plan, now)
  if not value then return this, 0 end
  local start, used = tonumber(string.sub(value, 1, -11)), tonumber(string.sub(value, -10))
  -- What is no number, or not one of ours, compares as neither.
  if not start or not used or not (0 <= start and start < 9007199254740992 and 0 <= used) then
    return nil
  end
  if plan.per ~= 0 then start = start * plan.per end
  -- A window that lies ahead stays: the clock has gone back, and that must not pay.
  if start < this then return this, 0 end
  return start, used
end

-- The value to keep, and for how many ticks.
local function written(plan, now, start, used)
  local finish, lives = end_of(plan, start), 0
  if 0 < used then
    lives = finish - now
    -- The last window that the caller gave goes on for as long as it gives no other: two years.
    if is_overdue(plan, finish) then lives = TWO_YEARS end
  end
  if plan.per ~= 0 then start = start / plan.per end
  return string.format('%d%010d', start, used), lives
end

-- How many of `count` pass.
local function room(plan, used, count)
  if plan.cost == 0 then return used <= plan.limit and count or 0 end
  return math.min(count, math.floor(math.max(0, plan.limit - used) / plan.cost))
end

function fixed_window.fits(plan, value, now, count)
  local start, used = read(plan, value, now)
  return start and room(plan, used, count)
end

function fixed_window.take(plan, value, now, count)
  local start, used = read(plan, value, now)
  return written(plan, now, start, used + count * plan.cost)
end

function fixed_window.decide(plan, value, now, count)
  local start, used = read(plan, value, now)
  if not start then return nil end
  local passed = room(plan, used, count)
  if passed == 0 then return 0 end
  return passed, written(plan, now, start, used + passed * plan.cost)
end

function fixed_window.debit(plan, value, now)
  local start, used = read(plan, value, now)
  return written(plan, now, start, math.min(COUNT_MAX, used + plan.cost))
end

-- Charges what was refused, if it could ever pass.
function fixed_window.refuse(plan, value, now, count)
  if plan.limit < plan.cost then return nil end
  local start, used = read(plan, value, now)
  used = math.min(math.max(used, plan.over), used + count * plan.cost)
  return written(plan, now, start, used)
end

function fixed_window.refund(plan, value, now)
  local start, used = read(plan, value, now)
  local inside = plan.at < end_of(plan, start) or is_overdue(plan, plan.at)
  if start <= plan.at and inside and used < plan.over then
    used = math.max(0, used - plan.cost)
  end
  return written(plan, now, start, used)
end

function fixed_window.give_back(plan, value, now)
  local start, used = read(plan, value, now)
  return written(plan, now, start, math.max(0, used - plan.cost))
end
