-- Sliding log and concurrency: what passed, each with the tick at which it leaves.
--
-- plan  limit, per, at (of the receipt), width. over is how far refusals may bring the sum; of a
--       refund, from where on something may have been forgiven
-- value cells in all (4 bytes), words that core's list would take (4), the latest tick seen (7),
--       whether events were ever merged (1); then the events, oldest first. An event is an even
--       word of `width` bytes, twice the lower bits of its tick, and means one cell; an odd word
--       after it adds half of itself, rounded down, in cells. Ticks are whole again by the latest
--       one: no event is older than a period, and as many bits as are kept tell those apart.

local EXACT_MAX = 32768
local WIDE_CELLS = 262144
-- The most that is counted.
local COUNT_MAX = 4294967295
local HEAD = 16

local log = {}

function log.plan(plan, field)
  plan.limit = ARGV[field] + 0
  plan.per = ARGV[field + 1] + 0
  plan.at = ARGV[field + 2] + 0
  plan.width = ARGV[field + 3] + 0
  plan.format = '>I' .. ARGV[field + 3]
  plan.range = 2 ^ (8 * plan.width - 1)
end

local function words_of(cells)
  if WIDE_CELLS <= cells then return 2 end
  return 1
end

-- The tick of a word: the last one up to the latest that ends in the bits kept.
local function tick_of(plan, state, word)
  return state.latest - (state.latest - word / 2) % plan.range
end

-- The event that starts at `place`: its tick, its cells, and where the next one starts.
local function event_at(plan, state, place)
  local word, following = struct.unpack(plan.format, state.list, place)
  local tick, cells = tick_of(plan, state, word), 1
  while following <= #state.list do
    local more, after = struct.unpack(plan.format, state.list, following)
    if more % 2 == 0 then break end
    cells, following = cells + (more - 1) / 2, after
  end
  return tick, cells, following
end

-- Where the event starts that ends just before `place`; nil before the first.
local function start_before(plan, state, place)
  place = place - plan.width
  while state.head <= place do
    if struct.unpack(plan.format, state.list, place) % 2 == 0 then return place end
    place = place - plan.width
  end
  return nil
end

-- The tick of the newest event, and where it starts.
local function newest(plan, state)
  local place = start_before(plan, state, #state.list + 1)
  if not place then return nil end
  return event_at(plan, state, place), place
end

-- The words of an event.
local function packed(plan, tick, cells)
  local words = {struct.pack(plan.format, tick % plan.range * 2)}
  local more = cells - 1
  while 0 < more do
    local some = math.min(more, plan.range - 1)
    words[#words + 1] = struct.pack(plan.format, some * 2 + 1)
    more = more - some
  end
  return table.concat(words)
end

local function is_one_bucket(plan, a, b)
  local bucket = math.ceil(plan.per / 16384)
  return math.floor(a / bucket) == math.floor(b / bucket)
end

-- What is remembered, without what has left by `now`.
local function read(plan, value, now)
  local state = {used = 0, words = 0, latest = 0, merged = 0, list = '', head = 1}
  if value then
    if #value < HEAD or (#value - HEAD) % plan.width ~= 0 then return nil end
    state.used, state.words, state.latest, state.merged, state.head =
      struct.unpack('>I4I4I7B', value)
    state.list = value
  end
  while state.head <= #state.list do
    local tick, cells, following = event_at(plan, state, state.head)
    if now - tick < plan.per then break end
    state.used, state.words = state.used - cells, state.words - words_of(cells)
    state.head = following
  end
  state.latest = math.max(state.latest, now)
  return state
end

-- The value to keep, and for how many ticks.
local function written(plan, now, state)
  local tick, lives = newest(plan, state), 0
  if tick then lives = tick + plan.per - now end
  return struct.pack('>I4I4I7B', state.used, state.words, state.latest, state.merged) ..
    string.sub(state.list, state.head), lives
end

-- How many of `count` pass.
local function room(plan, state, count)
  if plan.cost == 0 then return state.used <= plan.limit and count or 0 end
  return math.min(count, math.floor(math.max(0, plan.limit - state.used) / plan.cost))
end

-- Adds an event at the latest tick, to the newest one if that is as good as the same.
local function record(plan, state, cells)
  if cells == 0 then return end
  local tick, place = newest(plan, state)
  local merges = tick and EXACT_MAX <= state.words and is_one_bucket(plan, tick, state.latest)
  state.used = state.used + cells
  if tick and (tick == state.latest or merges) then
    local _, before = event_at(plan, state, place)
    if tick ~= state.latest then state.merged = 1 end
    state.words = state.words - words_of(before)
    cells = cells + before
    state.list = string.sub(state.list, state.head, place - 1)
  else
    if not tick then state.merged = 0 end
    state.list = string.sub(state.list, state.head)
  end
  state.head = 1
  state.words = state.words + words_of(cells)
  state.list = state.list .. packed(plan, state.latest, cells)
end

function log.fits(plan, value, now, count)
  local state = read(plan, value, now)
  return state and room(plan, state, count)
end

function log.take(plan, value, now, count)
  local state = read(plan, value, now)
  record(plan, state, count * plan.cost)
  return written(plan, now, state)
end

function log.decide(plan, value, now, count)
  local state = read(plan, value, now)
  if not state then return nil end
  local passed = room(plan, state, count)
  if passed == 0 then return 0 end
  record(plan, state, passed * plan.cost)
  return passed, written(plan, now, state)
end

function log.debit(plan, value, now)
  local state = read(plan, value, now)
  record(plan, state, math.min(plan.cost, COUNT_MAX - state.used))
  return written(plan, now, state)
end

-- Takes cells out of the event that starts at `place`, and says how many.
local function take_out(plan, state, place, cells)
  local tick, had, following = event_at(plan, state, place)
  local left, kept = had - math.min(cells, had), ''
  state.words = state.words - words_of(had)
  if 0 < left then
    kept = packed(plan, tick, left)
    state.words = state.words + words_of(left)
  end
  state.used = state.used - had + left
  state.list = string.sub(state.list, state.head, place - 1) .. kept ..
    string.sub(state.list, following)
  state.head = 1
  return had - left
end

-- Takes out what the receipt says, and says how many cells of it there were.
local function take_back(plan, state)
  local found, place = nil, start_before(plan, state, #state.list + 1)
  while place and plan.at <= event_at(plan, state, place) do
    found, place = place, start_before(plan, state, place)
  end
  if found then
    local tick = event_at(plan, state, found)
    local merged = state.merged == 1 and is_one_bucket(plan, plan.at, tick)
    if tick == plan.at or merged then return take_out(plan, state, found, plan.cost) end
  end
  return 0
end

function log.refund(plan, value, now)
  local state = read(plan, value, now)
  if state.used < plan.over then take_back(plan, state) end
  return written(plan, now, state)
end

-- Takes cells out of the oldest events.
local function take_oldest(plan, state, cells)
  while 0 < cells and state.head <= #state.list do
    cells = cells - take_out(plan, state, state.head, cells)
  end
end

function log.give_back(plan, value, now)
  local state = read(plan, value, now)
  take_oldest(plan, state, plan.cost)
  return written(plan, now, state)
end

-- Charges what was refused, if it could ever pass. The newest stay: what is forgotten instead would
-- have left first.
function log.refuse(plan, value, now, count)
  if plan.limit < plan.cost then return nil end
  local state = read(plan, value, now)
  for _ = 1, count do
    local over = math.min(math.max(0, state.used + plan.cost - plan.over), plan.cost, state.used)
    take_oldest(plan, state, over)
    record(plan, state, plan.cost)
  end
  return written(plan, now, state)
end

-- The tick from which a permit counts now that it is renewed, its cells, and what to keep for how
-- long; nil if it has lapsed.
function log.renew(plan, value, now)
  -- What was kept together with others that came later has lapsed by itself all the same.
  if not value or plan.per <= now - plan.at then return nil end
  local state = read(plan, value, now)
  local cells = take_back(plan, state)
  if cells == 0 then return nil end
  record(plan, state, cells)
  return state.latest, cells, written(plan, now, state)
end

-- When `excess` cells will have left, of those that were there and those that have just passed.
local function frees_at(plan, state, excess)
  local place, left = state.head, 0
  while place <= #state.list do
    local tick, cells, following = event_at(plan, state, place)
    left, place = left + cells, following
    if excess <= left then return tick + plan.per end
  end
  return state.latest + plan.per
end

-- What the answers need, since the events are too many to send: the cells before, the newest
-- event's tick before and the latest tick; and when a request passes that finds no room now, after
-- what it was refused has been charged to `refused`, if it has.
function log.told(plan, value, now, passed, refused)
  local state = read(plan, value, now)
  local after = refused and read(plan, refused, now) or state
  local frees, excess = 0, after.used + (passed + 1) * plan.cost - plan.limit
  if 0 < excess and plan.cost <= plan.limit then frees = frees_at(plan, after, excess) end
  return string.format('%d %d %d %d', state.used, newest(plan, state) or 0,
    state.latest, frees)
end
