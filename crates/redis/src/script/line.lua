-- Token bucket, GCRA and leaky bucket: three readings of one line.
--
-- A state is where the debt meets zero, as in core/src/algorithm/line.rs, but told in ticks and
-- parts of a tick (one part is one grain, and `paid` of them make a tick), because a Lua number is
-- exact only below 2^53. Ticks past 2^52 are counted in words of 2^52. So all that is ever done is
-- to add, to carry and to compare: the client has worked out what a cost and a burst weigh.
--
-- plan  weight_words, weight_ticks, weight_parts, burst_words, burst_ticks, burst_parts, paid; over
--       is by how many ticks' worth it may be overdrawn. Of a refund, over is one more than the
--       receipt's tick, and instead of the burst there is the line from which on something may have
--       been forgiven since; of a queue, over is 0, and burst_ticks is when its slot ends
-- value ticks, and three digits of parts where a tick has any: Redis keeps that as one integer.
--       With more than a thousand parts, or more than a word: `w` and all three

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

local function read(plan, value)
  if not value then return 0, 0, 0 end
  local words, ticks, parts = 0, nil, 0
  if string.byte(value) == 119 then
    words, ticks, parts = string.match(value, '^w(%d+) (%d+) (%d+)$')
    words, ticks, parts = tonumber(words), tonumber(ticks), tonumber(parts)
  elseif plan.paid == 1 then
    ticks = tonumber(value)
  else
    ticks, parts = tonumber(string.sub(value, 1, -4)), tonumber(string.sub(value, -3))
  end
  -- What is no number, or not one of ours, compares as neither.
  if not ticks or not parts or not (0 <= ticks and ticks < 2 * WORD) then return nil end
  return words, ticks, parts
end

-- The value to keep, and for how many ticks.
local function written(plan, now, words, ticks, parts)
  local lives = words * WORD + ticks - now
  if 0 < parts then lives = lives + 1 end
  if 0 < words or 1000 < plan.paid then
    return string.format('w%d %d %d', words, ticks, parts), lives
  elseif plan.paid == 1 then
    return string.format('%d', ticks), lives
  end
  return string.format('%d%03d', ticks, parts), lives
end

-- Whether a line meets zero no later than another.
local function no_later(words, ticks, parts, other_words, other_ticks, other_parts)
  if words ~= other_words then return words < other_words end
  if ticks ~= other_ticks then return ticks < other_ticks end
  return parts <= other_parts
end

-- From where a charge at `now` counts: a line that has met zero starts again from there.
local function base(now, words, ticks, parts)
  if no_later(words, ticks, parts, 0, now, 0) then return 0, now, 0 end
  return words, ticks, parts
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

-- How many of `count` pass.
local function room(plan, now, words, ticks, parts, count)
  words, ticks, parts = base(now, words, ticks, parts)
  local full_words, full_ticks, full_parts = full(plan, now)
  local some, too_many, try = 0, count + 1, count
  while some + 1 < too_many do
    local after_words, after_ticks, after_parts = plus(plan, words, ticks, parts, try)
    if no_later(after_words, after_ticks, after_parts, full_words, full_ticks, full_parts) then
      some = try
    else
      too_many = try
    end
    try = math.floor((some + too_many) / 2)
  end
  return some
end

function line.fits(plan, value, now, count)
  local words, ticks, parts = read(plan, value)
  if not ticks then return nil end
  return room(plan, now, words, ticks, parts, count)
end

function line.take(plan, value, now, count)
  local words, ticks, parts = base(now, read(plan, value))
  return written(plan, now, plus(plan, words, ticks, parts, count))
end

-- Both at once. Most lines have no parts and fit a word, and one request at a time is the rule: all
-- that is left of the above then is one sum and one comparison.
function line.decide(plan, value, now, count)
  local ticks = now
  if value then ticks = tonumber(value) end
  if ticks and 0 <= ticks and count == 1 and plan.paid == 1 and plan.burst_words == 0 then
    if ticks < now then ticks = now end
    ticks = ticks + plan.weight_ticks
    if now + plan.burst_ticks < ticks or 0 < plan.weight_words then return 0 end
    if ticks < WORD then return 1, string.format('%d', ticks), ticks - now end
  end
  local words, parts
  words, ticks, parts = read(plan, value)
  if not ticks then return nil end
  local passed = room(plan, now, words, ticks, parts, count)
  if passed == 0 then return 0 end
  words, ticks, parts = base(now, words, ticks, parts)
  return passed, written(plan, now, plus(plan, words, ticks, parts, passed))
end

-- So many ticks later; fewer than a word.
local function later(words, ticks, parts, more)
  ticks = ticks + more
  if WORD <= ticks then words, ticks = words + 1, ticks - WORD end
  return words, ticks, parts
end

-- Where the line meets zero at the latest when it is overdrawn.
local function most(plan, now)
  local full_words, full_ticks, full_parts = full(plan, now)
  local words, ticks, parts = later(full_words, full_ticks, full_parts, 1)
  if no_later(words, ticks, parts, 0, WORD - 1, 0) then words, ticks, parts = 0, WORD - 1, 0 end
  full_words, full_ticks, full_parts = later(full_words, full_ticks, full_parts, plan.over)
  if no_later(words, ticks, parts, full_words, full_ticks, full_parts) then
    return words, ticks, parts
  end
  return full_words, full_ticks, full_parts
end

-- Takes `count` weights in full, but no more than makes the line meet zero at the latest. One that
-- is later already stays.
function line.debit(plan, value, now, count)
  local words, ticks, parts = read(plan, value)
  local most_words, most_ticks, most_parts = most(plan, now)
  if no_later(most_words, most_ticks, most_parts, words, ticks, parts) then
    return written(plan, now, words, ticks, parts)
  end
  words, ticks, parts = base(now, words, ticks, parts)
  words, ticks, parts = plus(plan, words, ticks, parts, count)
  if no_later(most_words, most_ticks, most_parts, words, ticks, parts) then
    words, ticks, parts = most_words, most_ticks, most_parts
  end
  return written(plan, now, words, ticks, parts)
end

-- As line.debit, for requests that were refused, if they could ever pass.
function line.refuse(plan, value, now, count)
  local could = no_later(plan.weight_words, plan.weight_ticks, plan.weight_parts,
    plan.burst_words, plan.burst_ticks, plan.burst_parts)
  if could then return line.debit(plan, value, now, count) end
end

-- Some ticks and parts before: never before `now`.
local function earlier(plan, now, words, ticks, parts, by_words, by_ticks, by_parts)
  parts = parts - by_parts
  if parts < 0 then parts, ticks = parts + plan.paid, ticks - 1 end
  ticks = ticks - by_ticks
  if ticks < 0 then words, ticks = words - 1, ticks + WORD end
  words = words - by_words
  if words < 0 then words, ticks, parts = 0, now, 0 end
  return base(now, words, ticks, parts)
end

-- Whether the line ends where the slot did that is given back: nobody stands behind it.
local function is_last(plan, words, ticks, parts)
  local ends = words * WORD + ticks
  if 0 < parts then ends = ends + 1 end
  return math.min(ends, 2 * WORD - 1) == plan.burst_ticks
end

-- What is to be kept, for how long, and whether the slot of a queue stays taken: because others
-- stand behind it, or because its time is over.
local function leave(plan, now, words, ticks, parts)
  local stays = not is_last(plan, words, ticks, parts)
  if not stays and not no_later(words, ticks, parts, 0, now, 0) then
    words, ticks, parts = earlier(plan, now, words, ticks, parts,
      plan.weight_words, plan.weight_ticks, plan.weight_parts)
  end
  local new, lives = written(plan, now, words, ticks, parts)
  return new, lives, stays or plan.burst_ticks <= now
end

-- What time has not paid since the receipt's tick; nothing where a debit may have been clipped
-- since: see core/src/algorithm/line.rs.
function line.refund(plan, value, now)
  local words, ticks, parts = read(plan, value)
  if plan.over == 0 then return leave(plan, now, words, ticks, parts) end
  local clipped = no_later(plan.burst_words, plan.burst_ticks, plan.burst_parts,
    words, ticks, parts)
  if not clipped and not no_later(words, ticks, parts, 0, now, 0) then
    local by_words, by_ticks = plan.weight_words, plan.weight_ticks
    by_ticks = by_ticks - math.max(0, now - (plan.over - 1))
    if by_ticks < 0 then by_words, by_ticks = by_words - 1, by_ticks + WORD end
    if 0 <= by_words then
      words, ticks, parts = earlier(plan, now, words, ticks, parts,
        by_words, by_ticks, plan.weight_parts)
    end
  end
  return written(plan, now, words, ticks, parts)
end

-- What is owed, up to one weight.
function line.give_back(plan, value, now)
  local words, ticks, parts = read(plan, value)
  if not no_later(words, ticks, parts, 0, now, 0) then
    words, ticks, parts = earlier(plan, now, words, ticks, parts,
      plan.weight_words, plan.weight_ticks, plan.weight_parts)
  end
  return written(plan, now, words, ticks, parts)
end
