-- Token bucket, GCRA and leaky bucket: three readings of one line.
--
-- A state is where the debt meets zero, as in core/src/algorithm/line.rs, but told in ticks and
-- parts of a tick (one part is one grain, and `paid` of them make a tick), because a Lua number is
-- exact only below 2^53. Ticks past 2^52 are counted in words of 2^52. So all that is ever done is
-- to add, to carry and to compare: the client has worked out what a cost and a burst weigh.
--
-- plan  weight_words, weight_ticks, weight_parts, burst_words, burst_ticks, burst_parts, paid
-- value ticks and three digits of parts, which Redis keeps as one integer; or `w` and all three

local WORD = 4503599627370496

local line = {}

function line.plan(plan, field)
  plan.weight_words = ARGV[field] + 0
  plan.weight_ticks = ARGV[field + 1] + 0
  plan.weight_parts = ARGV[field + 2] + 0
  plan.burst_words = ARGV[field + 3] + 0
  plan.burst_ticks = ARGV[field + 4] + 0
  plan.burst_parts = ARGV[field + 5] + 0
  plan.paid = ARGV[field + 6] + 0
end

function line.read(plan, value, now)
  local words, ticks, parts = 0, 0, 0
  if value and string.byte(value) ~= 119 then
    ticks, parts = string.sub(value, 1, -4) + 0, string.sub(value, -3) + 0
  elseif value then
    words, ticks, parts = string.match(value, '^w(%d+) (%d+) (%d+)$')
    words, ticks, parts = words + 0, ticks + 0, parts + 0
  end
  return {words, ticks, parts, value}
end

-- Whether a line meets zero no later than another.
local function no_later(words, ticks, parts, other_words, other_ticks, other_parts)
  if words ~= other_words then return words < other_words end
  if ticks ~= other_ticks then return ticks < other_ticks end
  return parts <= other_parts
end

-- From where a charge at `now` counts: a line that has met zero starts again from there.
local function base(state, now)
  if no_later(state[1], state[2], state[3], 0, now, 0) then return 0, now, 0 end
  return state[1], state[2], state[3]
end

-- `count` weights later. The client sees to it that count * (weight_ticks + 1) <= 2^52.
local function plus(plan, words, ticks, parts, count)
  parts = parts + count * plan.weight_parts
  local left = parts % plan.paid
  ticks = ticks + count * plan.weight_ticks + (parts - left) / plan.paid
  parts = left
  left = ticks % WORD
  return words + count * plan.weight_words + (ticks - left) / WORD, left, parts
end

-- Where the line meets zero when nothing remains.
local function full(plan, now)
  local words, ticks = plan.burst_words, plan.burst_ticks + now
  if WORD <= ticks then words, ticks = words + 1, ticks - WORD end
  return words, ticks, plan.burst_parts
end

function line.fits(plan, state, now, count)
  local words, ticks, parts = base(state, now)
  local full_words, full_ticks, full_parts = full(plan, now)
  local function passes(some)
    local after_words, after_ticks, after_parts = plus(plan, words, ticks, parts, some)
    return no_later(after_words, after_ticks, after_parts, full_words, full_ticks, full_parts)
  end
  if passes(count) then return count end
  local some, too_many = 0, count
  while some + 1 < too_many do
    local middle = math.floor((some + too_many) / 2)
    if passes(middle) then some = middle else too_many = middle end
  end
  return some
end

function line.take(plan, state, now, count)
  local words, ticks, parts = base(state, now)
  state[1], state[2], state[3] = plus(plan, words, ticks, parts, count)
end

-- Takes what fits of one weight: for what has passed already, elsewhere.
function line.debit(plan, state, now)
  local words, ticks, parts = base(state, now)
  local full_words, full_ticks, full_parts = full(plan, now)
  if no_later(full_words, full_ticks, full_parts, words, ticks, parts) then return end
  words, ticks, parts = plus(plan, words, ticks, parts, 1)
  if no_later(full_words, full_ticks, full_parts, words, ticks, parts) then
    words, ticks, parts = full_words, full_ticks, full_parts
  end
  state[1], state[2], state[3] = words, ticks, parts
end

function line.refund(plan, state, now)
  local words, ticks, parts = state[1], state[2], state[3]
  if no_later(words, ticks, parts, 0, now, 0) then return end
  parts = parts - plan.weight_parts
  if parts < 0 then parts, ticks = parts + plan.paid, ticks - 1 end
  ticks = ticks - plan.weight_ticks
  if ticks < 0 then words, ticks = words - 1, ticks + WORD end
  words = words - plan.weight_words
  if words < 0 or no_later(words, ticks, parts, 0, now, 0) then
    words, ticks, parts = 0, now, 0
  end
  state[1], state[2], state[3] = words, ticks, parts
end

function line.lives(plan, state, now)
  local ticks = state[1] * WORD + state[2] - now
  if 0 < state[3] then return ticks + 1 end
  return ticks
end

function line.write(plan, state)
  if state[1] == 0 and plan.paid <= 1000 then
    return string.format('%.0f%03d', state[2], state[3])
  end
  return string.format('w%.0f %.0f %.0f', state[1], state[2], state[3])
end

function line.told(plan, state)
  return state[4] or ''
end
