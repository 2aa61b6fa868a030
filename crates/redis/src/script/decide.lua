-- Decides many requests in one call, each by one limit or by several, all or nothing.
--
-- KEYS  for each limit of each request: its key, and the keys that it had under former policies
-- ARGV  now, in ticks, or empty for the server's own clock
--       slack: milliseconds that a state is kept for longer than it counts
--       how many plans, and each in 12 fields: what to do (d decide, p peek, r refund, n renew,
--       x reset, b debit, g give back), shape, former keys, cost, seven that the shape reads, and
--       over: how far beyond the limit is charged, by debits or by what is refused; 0 if nothing is
--       the requests: how many alike, how many limits, and the plan of each limit
-- reply now; then for each request how many of those alike passed, and for each of its limits the
--       state that was found, of a debit too; of a renewal, the tick from which the permit counts
--       now and its cells, or nothing if it has lapsed; of a refund, `stays` if the slot of a queue
--       did not come back. -1 if one is kept under a former policy: nothing was done, and its
--       limit says `<`, the place of its key among the former ones, a space, and the state.
--       -2 if a state cannot be read: nothing was done, and its limits say why.
--
-- All numbers are whole and below 2^53, and are ticks (microseconds) unless they say otherwise.
--
-- The client puts clock.lua before this, and the shapes that a call needs, by their numbers.

local FIELDS = 12
-- As long as a state is ever kept, in milliseconds: 142 years.
local AGES = 4503599627370

local slack = ARGV[2] + 0

local plans = {}
local field = 4
for index = 1, ARGV[3] + 0 do
  local shape = SHAPES[ARGV[field + 1] + 0]
  local plan = {does = ARGV[field], shape = shape, formers = ARGV[field + 2] + 0,
    cost = ARGV[field + 3] + 0, over = ARGV[field + 11] + 0}
  shape.plan(plan, field + 4)
  plans[index] = plan
  field = field + FIELDS
end

local key = 1
local reply, told = {now}, 1

local function say(what)
  told = told + 1
  reply[told] = what
end

local function keep(name, value, lives)
  if lives <= 0 then
    call('DEL', name)
  else
    local millis = math.min(AGES, (lives + 999) / 1000) + slack
    -- The format rounds down, so it is rounded up; as a number it would take longer.
    call('PSETEX', name, string.format('%d', millis), value)
  end
end

-- Says what was found of a limit: the state itself, unless its shape sends something shorter; that
-- needs to know what it is if it was `refused` and charged for it.
local function say_found(plan, value, passed, refused)
  local tells = plan.shape.told
  if tells then say(tells(plan, value, now, passed, refused)) else say(value or '') end
end

-- The state of a limit at `place`, or `elsewhere` and what a former policy's key holds, or
-- `unreadable` and why. A key of another type must not stop the other requests.
local function find(plan, place)
  local value = redis.pcall('GET', KEYS[place])
  if type(value) == 'table' then return nil, 'unreadable', value.err end
  if value or plan.formers == 0 then return value end
  for former = 1, plan.formers do
    local old = call('GET', KEYS[place + former])
    if old then return nil, 'elsewhere', '<' .. former .. ' ' .. old end
  end
  return nil
end

-- The answer to a request that could not be looked at.
local function say_not_done(chosen, why, texts)
  say(why == 'elsewhere' and -1 or -2)
  for index = 1, #chosen do say(texts[index] or '') end
end

-- Renews a permit, and says from when it counts; if it has lapsed nothing is written.
local function renew(plan, name, value)
  local at, cells, new, lives = plan.shape.renew(plan, value, now)
  if not at then return '' end
  keep(name, new, lives)
  return string.format('%d %d', at, cells)
end

-- What needs no judging: refunds, renewals, debits and resets.
local function change(does, chosen)
  local values, texts, why = {}, {}, nil
  local places = {}
  for index = 1, #chosen do
    local plan = chosen[index]
    local value, trouble, text = find(plan, key)
    if not trouble and not plan.shape.fits(plan, value, now, 1) then
      trouble, text = 'unreadable', 'not a state'
    end
    places[index], values[index], texts[index] = key, value, text
    why = trouble == 'unreadable' and trouble or why or trouble
    if does == 'x' then
      for former = 0, plan.formers do call('DEL', KEYS[key + former]) end
    end
    key = key + 1 + plan.formers
  end
  if does ~= 'x' and why then return say_not_done(chosen, why, texts) end
  say(0)
  for index = 1, #chosen do
    local plan, value, said = chosen[index], values[index], ''
    local name, shape = KEYS[places[index]], plan.shape
    if does == 'n' then
      said = renew(plan, name, value)
    elseif does ~= 'x' and 0 < plan.cost then
      local act = does == 'r' and shape.refund or does == 'g' and shape.give_back or shape.debit
      local new, lives, stays = act(plan, value, now, 1)
      keep(name, new, lives)
      if does == 'r' and stays then said = 'stays' end
    end
    if does == 'b' then say_found(plan, value, 0) else say(said) end
  end
end

-- One limit: the usual case, without a list of anything.
local function decide_one(plan, count)
  local name = KEYS[key]
  local value, trouble, text = find(plan, key)
  key = key + 1 + plan.formers
  local passed, new, lives
  if not trouble then
    if 0 < plan.cost then
      passed, new, lives = plan.shape.decide(plan, value, now, count)
    else
      passed = plan.shape.fits(plan, value, now, count)
    end
    if not passed then trouble, text = 'unreadable', 'not a state' end
  end
  if trouble then return say_not_done({plan}, trouble, {text}) end
  local refused
  if 0 < plan.over and 0 < plan.cost and passed < count then
    local lasts
    refused, lasts = plan.shape.refuse(plan, new or value, now, count - passed)
    if refused then new, lives = refused, lasts end
  end
  if new then keep(name, new, lives) end
  say(passed)
  say_found(plan, value, passed, refused)
end

-- Charges to a limit the requests that it refuses itself, if it does; what is kept then.
local function refuse(plan, name, value, count)
  if plan.over == 0 or plan.cost == 0 or count == 0 then return nil end
  if plan.shape.fits(plan, value, now, 1) ~= 0 then return nil end
  local refused, lives = plan.shape.refuse(plan, value, now, count)
  if refused then keep(name, refused, lives) end
  return refused
end

-- Several limits, or only a look.
local function decide_all(does, chosen, count)
  local names, values, texts, why = {}, {}, {}, nil
  -- Each look is by itself: what one sees, all alike see.
  local passed = does == 'p' and 1 or count
  for index = 1, #chosen do
    local plan = chosen[index]
    local value, trouble, text = find(plan, key)
    names[index], values[index] = KEYS[key], value
    key = key + 1 + plan.formers
    if not trouble then
      local fits = plan.shape.fits(plan, value, now, passed)
      if not fits then
        trouble, text = 'unreadable', 'not a state'
      else
        passed = fits
      end
    end
    texts[index] = text
    why = trouble == 'unreadable' and trouble or why or trouble
  end
  if why then return say_not_done(chosen, why, texts) end
  say(does == 'p' and passed * count or passed)
  for index = 1, #chosen do
    local plan, value, refused = chosen[index], values[index], nil
    if does == 'd' then
      local new, lives = value, nil
      if 0 < passed and 0 < plan.cost then
        new, lives = plan.shape.take(plan, value, now, passed)
        keep(names[index], new, lives)
      end
      refused = refuse(plan, names[index], new, count - passed)
    end
    say_found(plan, value, does == 'd' and passed or 0, refused)
  end
end

local function request(chosen, count)
  local does = chosen[1].does
  if does == 'd' and not chosen[2] then
    decide_one(chosen[1], count)
  elseif does == 'd' or does == 'p' then
    decide_all(does, chosen, count)
  else
    change(does, chosen)
  end
end

while ARGV[field] do
  local count, limits, chosen = ARGV[field] + 0, ARGV[field + 1] + 0, {}
  for index = 1, limits do chosen[index] = plans[ARGV[field + 1 + index] + 0] end
  field = field + 2 + limits
  request(chosen, count)
end
return reply
