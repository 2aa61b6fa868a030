-- Sliding window: this window's count, plus the last one's weighted by how much of it still shows.
--
-- plan  limit, per, at (of the receipt)
-- value the window's number, ten digits of the last one's count and ten of this one's

local sliding_window = {}

function sliding_window.plan(plan, field)
  plan.limit = ARGV[field] + 0
  plan.per = ARGV[field + 1] + 0
  plan.at = ARGV[field + 2] + 0
end

function sliding_window.read(plan, value, now)
  local start, last, this = 0, 0, 0
  if value then
    start = string.sub(value, 1, -21) * plan.per
    last, this = string.sub(value, -20, -11) + 0, string.sub(value, -10) + 0
  end
  local elapsed = math.max(0, now - start)
  if plan.per <= elapsed then
    if elapsed - plan.per < plan.per then last = this else last = 0 end
    start, this = now - now % plan.per, 0
  end
  return {start, last, this, value}
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

local function room(plan, state, now)
  local shows = plan.per - math.max(0, now - state[1])
  return math.max(0, plan.limit - share(state[2], shows, plan.per) - state[3])
end

function sliding_window.fits(plan, state, now, count)
  return math.min(count, math.floor(room(plan, state, now) / plan.cost))
end

function sliding_window.take(plan, state, now, count)
  state[3] = state[3] + count * plan.cost
end

function sliding_window.debit(plan, state, now)
  state[3] = state[3] + math.min(room(plan, state, now), plan.cost)
end

function sliding_window.refund(plan, state, now)
  if state[1] + plan.per <= plan.at then return end
  if state[1] <= plan.at then
    state[3] = math.max(0, state[3] - plan.cost)
  elseif state[1] - plan.at <= plan.per then
    state[2] = math.max(0, state[2] - plan.cost)
  end
end

-- At most: the last cells of a window fade out before its successor ends.
function sliding_window.lives(plan, state, now)
  if 0 < state[3] then return state[1] + 2 * plan.per - now end
  if 0 < state[2] then return state[1] + plan.per - now end
  return 0
end

function sliding_window.write(plan, state)
  return string.format('%.0f%010.0f%010.0f', state[1] / plan.per, state[2], state[3])
end

function sliding_window.told(plan, state)
  return state[4] or ''
end
