-- Decides many requests in one call, each by one limit or by several, all or nothing.
--
-- KEYS  for each limit of each request: its key, and the keys that it had under former policies
-- ARGV  now, in ticks, or empty for the server's own clock
--       slack: milliseconds that a state is kept for longer than it counts
--       how many plans, and each in 11 fields: what to do (d decide, p peek, r refund, x reset,
--       b debit), shape, former keys, cost, and seven that the shape reads
--       the requests: how many alike, how many limits, and the plan of each limit;
--       with none given, every key is one by the first plan
-- reply now; then for each request how many of those alike passed, and for each of its limits the
--       state that was found. -1 if one is kept under a former policy: nothing was done, and its
--       limit says `<`, the place of its key among the former ones, a space, and the state.
--       -2 if a state cannot be read: nothing was done, and its limits say why.
--
-- All numbers are whole and below 2^53, and are ticks (microseconds) unless they say otherwise.

local SHAPES = {line, fixed_window, sliding_window, log}
local FIELDS = 11
-- As long as a state is ever kept, in milliseconds: 142 years.
local AGES = 4503599627370

local now = ARGV[1]
if now == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = now + 0
end
local slack = ARGV[2] + 0

local plans = {}
local field = 4
for index = 1, ARGV[3] + 0 do
  local shape = SHAPES[ARGV[field + 1] + 0]
  local plan = {does = ARGV[field], shape = shape, formers = ARGV[field + 2] + 0,
    cost = ARGV[field + 3] + 0}
  shape.plan(plan, field + 4)
  plans[index] = plan
  field = field + FIELDS
end

local key = 1
local reply = {now}

local function keep(plan, name, state)
  local lives = plan.shape.lives(plan, state, now)
  if lives <= 0 then
    redis.call('DEL', name)
    return
  end
  local millis = math.min(AGES, math.ceil(lives / 1000)) + slack
  redis.call('SET', name, plan.shape.write(plan, state), 'PX', millis)
end

-- The state under a former policy, if there is one.
local function former(plan, name_at)
  for place = 1, plan.formers do
    local value = redis.call('GET', KEYS[name_at + place])
    if value then return '<' .. place .. ' ' .. value end
  end
end

local function answer(passed, chosen, states)
  reply[#reply + 1] = passed
  for index, plan in ipairs(chosen) do
    reply[#reply + 1] = plan.shape.told(plan, states[index], now)
  end
end

-- Reads the states of a request, and says which are kept under former policies.
local function read(chosen)
  local states, names, elsewhere = {}, {}, nil
  local place = key
  for index, plan in ipairs(chosen) do
    local value = redis.call('GET', KEYS[place])
    if not value and 0 < plan.formers then
      local old = former(plan, place)
      if old then
        elsewhere = elsewhere or {}
        elsewhere[index] = old
      end
    end
    names[index], states[index] = KEYS[place], plan.shape.read(plan, value, now)
    place = place + 1 + plan.formers
  end
  return states, names, elsewhere
end

-- The same, or nil with the answer given: what cannot be read must not stop the other requests.
local function found(chosen)
  local readable, states, names, elsewhere = pcall(read, chosen)
  for _, plan in ipairs(chosen) do key = key + 1 + plan.formers end
  if readable and not elsewhere then return states, names end
  reply[#reply + 1] = readable and -1 or -2
  for index = 1, #chosen do
    if readable then
      reply[#reply + 1] = elsewhere[index] or ''
    else
      reply[#reply + 1] = type(states) == 'table' and states.err or tostring(states)
    end
  end
end

local function request(count, chosen)
  local does = chosen[1].does
  if does == 'x' then
    for _, plan in ipairs(chosen) do
      for _ = 0, plan.formers do
        redis.call('DEL', KEYS[key])
        key = key + 1
      end
      reply[#reply + 1] = 0
    end
    return
  end
  local states, names = found(chosen)
  if not states then return end
  -- Each look is by itself: what one sees, all alike see.
  local passed = does == 'p' and 1 or count
  for index, plan in ipairs(chosen) do
    local shape, state = plan.shape, states[index]
    if does == 'r' or does == 'b' then
      if does == 'r' then shape.refund(plan, state, now) else shape.debit(plan, state, now) end
      keep(plan, names[index], state)
    elseif 0 < plan.cost then
      passed = math.min(passed, shape.fits(plan, state, now, passed))
    end
  end
  if does == 'd' and 0 < passed then
    for index, plan in ipairs(chosen) do
      if 0 < plan.cost then
        plan.shape.take(plan, states[index], now, passed)
        keep(plan, names[index], states[index])
      end
    end
  end
  if does == 'p' then passed = passed * count end
  answer(passed, chosen, states)
end

if not ARGV[field] then
  local chosen = {plans[1]}
  while KEYS[key] do request(1, chosen) end
end
while ARGV[field] do
  local chosen = {}
  for index = 1, ARGV[field + 1] + 0 do
    chosen[index] = plans[ARGV[field + 1 + index] + 0]
  end
  local count = ARGV[field] + 0
  field = field + 2 + #chosen
  request(count, chosen)
end
return reply
