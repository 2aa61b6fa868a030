-- Fixed window: a count that starts again at every boundary.
--
-- plan  limit, per, at (of the receipt), three boundaries; for a calendar, per is 0
-- value the window's number (or start, for a calendar) and ten digits of what was used

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

function fixed_window.read(plan, value, now)
  local start, used = 0, 0
  if value then
    start, used = string.sub(value, 1, -11) + 0, string.sub(value, -10) + 0
    if plan.per ~= 0 then start = start * plan.per end
  end
  local this = start_of(plan, now)
  -- A window that lies ahead stays: the clock has gone back, and that must not pay.
  if start < this then start, used = this, 0 end
  return {start, used, nil, value}
end

function fixed_window.fits(plan, state, now, count)
  local room = math.max(0, plan.limit - state[2])
  return math.min(count, math.floor(room / plan.cost))
end

function fixed_window.take(plan, state, now, count)
  state[2] = state[2] + count * plan.cost
end

function fixed_window.debit(plan, state, now)
  local room = math.max(0, plan.limit - state[2])
  state[2] = state[2] + math.min(room, plan.cost)
end

function fixed_window.refund(plan, state, now)
  local inside = plan.at < end_of(plan, state[1]) or is_overdue(plan, plan.at)
  if state[1] <= plan.at and inside then state[2] = math.max(0, state[2] - plan.cost) end
end

function fixed_window.lives(plan, state, now)
  if state[2] == 0 then return 0 end
  local finish = end_of(plan, state[1])
  -- The last window that the caller gave may go on for as long as it gives no other: one more.
  if is_overdue(plan, finish) then
    return math.max(0, finish - now) + plan.finish - plan.middle
  end
  return finish - now
end

function fixed_window.write(plan, state)
  local start = state[1]
  if plan.per ~= 0 then start = start / plan.per end
  return string.format('%.0f%010.0f', start, state[2])
end

function fixed_window.told(plan, state)
  return state[4] or ''
end
