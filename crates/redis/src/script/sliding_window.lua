-- Sliding window: this window's count, plus the last one's weighted by how much of it still shows.
--
-- plan  limit, per, at (of the receipt). over is how far refusals may bring a count; of a refund,
--       from where on something may have been forgiven
-- value the window's number, ten digits of the last one's count and ten of this one's

-- The most that is counted.
local COUNT_MAX = 4294967295

local sliding_window = {}

function sliding_window.plan(plan, field)
  plan.limit = ARGV[field] + 0
  plan.per = ARGV[field + 1] + 0
  plan.at = ARGV[field + 2] + 0
end

-- The window, the last one's count and this one's.
local function read(plan, value, now)
  local start, last, this = 0, 0, 0
  if value then
    start = tonumber(string.sub(value, 1, -21))
    last, this = tonumber(string.sub(value, -20, -11)), tonumber(string.sub(value, -10))
    -- What is no number, or not one of ours, compares as neither.
    if not start or not last or not this then return nil end
    if not (0 <= start and start < 9007199254740992 and 0 <= last and 0 <= this) then
      return nil
    end
    start = start * plan.per
  end
  local elapsed = math.max(0, now - start)
  if elapsed < plan.per then return start, last, this end
  if plan.per <= elapsed - plan.per then this = 0 end
  return now - now % plan.per, this, 0
end

-- The value to keep, and for how many ticks: at most, since the last cells of a window fade out
-- before its successor ends.
local function written(plan, now, start, last, this)
  local lives = 0
  if 0 < last then lives = start + plan.per - now end
  if 0 < this then lives = start + 2 * plan.per - now end
  return string.format('%d%010d%010d', start / plan.per, last, this), lives
end

-- floor(weight * shows / per). Weights are below 2^32 and periods below 2^45, so the product may
-- not be exact; six bits of the weight at a time, everything stays below 2^52. Not 2^53, because
-- Lua's % divides, rounds and multiplies: that is exact only where a quotient's neighbors are less
-- than half a step away.
local function share(weight, shows, per)
  local product = weight * shows
  if product < 4503599627370496 then return (product - product % per) / per end
  local whole, left = 0, 0
  for _, unit in ipairs({1073741824, 16777216, 262144, 4096, 64, 1}) do
    left = left * 64 + math.floor(weight / unit) % 64 * shows
    whole = whole * 64 + (left - left % per) / per
    left = left % per
  end
  return whole
end

-- How many of `count` pass.
local function room(plan, now, start, last, this, count)
  local shows = plan.per - math.max(0, now - start)
  local left = plan.limit - share(last, shows, plan.per) - this
  if left < 0 then return 0 end
  if plan.cost == 0 then return count end
  return math.min(count, math.floor(left / plan.cost))
end

function sliding_window.fits(plan, value, now, count)
  local start, last, this = read(plan, value, now)
  return start and room(plan, now, start, last, this, count)
end

function sliding_window.take(plan, value, now, count)
  local start, last, this = read(plan, value, now)
  return written(plan, now, start, last, this + count * plan.cost)
end

function sliding_window.decide(plan, value, now, count)
  local start, last, this = read(plan, value, now)
  if not start then return nil end
  local passed = room(plan, now, start, last, this, count)
  if passed == 0 then return 0 end
  return passed, written(plan, now, start, last, this + passed * plan.cost)
end

function sliding_window.debit(plan, value, now)
  local start, last, this = read(plan, value, now)
  return written(plan, now, start, last, math.min(COUNT_MAX, this + plan.cost))
end

-- Charges what was refused, if it could ever pass.
function sliding_window.refuse(plan, value, now, count)
  if plan.limit < plan.cost then return nil end
  local start, last, this = read(plan, value, now)
  this = math.min(math.max(this, plan.over), this + count * plan.cost)
  return written(plan, now, start, last, this)
end

function sliding_window.refund(plan, value, now)
  local start, last, this = read(plan, value, now)
  if start <= plan.at and plan.at < start + plan.per then
    if this < plan.over then this = math.max(0, this - plan.cost) end
  elseif plan.at < start and start - plan.at <= plan.per then
    if last < plan.over then last = math.max(0, last - plan.cost) end
  end
  return written(plan, now, start, last, this)
end

function sliding_window.give_back(plan, value, now)
  local start, last, this = read(plan, value, now)
  return written(plan, now, start, last, math.max(0, this - plan.cost))
end
