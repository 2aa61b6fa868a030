-- Decides many requests that differ in their keys only: by one limit each, and by one plan.
--
-- That is most calls, and decide.lua would say the same of them in twice the time.
--
-- KEYS  one for each request
-- ARGV  now and slack as in decide.lua, the cost, seven fields that the shape reads, and how many
--       are alike of each request; with none given, one of each
-- reply as decide.lua

-- As long as a state is ever kept, in milliseconds: 142 years.
local AGES = 4503599627370
local FIELDS = 10

local get = redis.pcall
local slack = ARGV[2] + 0
local plan = {cost = ARGV[3] + 0}
SHAPE.plan(plan, 4)
local decide, tells = SHAPE.decide, SHAPE.told
local counts = ARGV[FIELDS + 1]

local reply = {now}
for index = 1, #KEYS do
  local name, count = KEYS[index], 1
  if counts then count = ARGV[FIELDS + index] + 0 end
  local value = get('GET', name)
  local passed, new, lives, found
  -- A key of another type must not stop the other requests.
  if type(value) ~= 'table' then passed, new, lives = decide(plan, value, now, count) end
  if not passed then
    passed, found = -2, type(value) == 'table' and value.err or 'not a state'
  elseif new then
    local millis = math.min(AGES, (lives + 999) / 1000) + slack
    -- The format rounds down, so it is rounded up; as a number it would take longer.
    call('PSETEX', name, string.format('%d', millis), new)
  end
  if not found then found = tells and tells(plan, value, now, passed) or value or '' end
  reply[2 * index], reply[2 * index + 1] = passed, found
end
return reply
