-- Decides many requests that differ in their keys only, by one line: most of all calls.
--
-- line.lua and simple.lua would say the same, for quotas that never need a word and whose ticks
-- have at most a thousand parts. This has no functions and few arguments, because a script defines
-- its functions and reads its arguments anew on every call: it takes two thirds of the time.
--
-- KEYS  one for each request
-- ARGV  now, in ticks, or empty for the server's own clock
--       slack: milliseconds that a state is kept for longer than it counts
--       the weight of a request in ticks and parts, that of a burst, and how many parts make a tick
--       how many are alike of each request; with none given, one of each
-- reply as decide.lua

local get = redis.pcall
local slack, weight, weight_parts = ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
local full, full_parts, paid = now + ARGV[5], ARGV[6] + 0, ARGV[7] + 0
local counts = ARGV[8]

-- Most keys of a call are as good as fresh, and come to the same value: it is written out once.
local same, same_parts, same_value, same_millis

local reply = {now}
for index = 1, #KEYS do
  local name, try = KEYS[index], 1
  if counts then try = ARGV[7 + index] + 0 end
  local value = get('GET', name)
  local ticks, parts, found = now, 0, value or ''
  if value then
    if type(value) == 'table' then
      -- A key of another type must not stop the other requests.
      ticks, found = nil, value.err
    elseif paid == 1 then
      ticks = tonumber(value)
    else
      ticks, parts = tonumber(string.sub(value, 1, -4)), tonumber(string.sub(value, -3))
    end
    -- What is no number, or not one of ours, compares as neither.
    if not ticks or not parts or not (0 <= ticks and ticks < 9007199254740992) then
      ticks = nil
    elseif ticks < now then
      ticks, parts = now, 0
    end
  end
  local passed, too_many, kept, kept_parts = 0, try + 1, nil, nil
  if not ticks then
    passed, too_many, try = -2, -1, nil
    if type(value) ~= 'table' then found = 'not a state' end
  end
  -- All of them, if that is too many fewer and fewer: mostly one is tried, and that is all.
  while try do
    local after_parts = parts + try * weight_parts
    local left = after_parts % paid
    local after = ticks + try * weight + (after_parts - left) / paid
    if after < full or (after == full and left <= full_parts) then
      passed, kept, kept_parts = try, after, left
    else
      too_many = try
    end
    try = passed + 1 < too_many and math.floor((passed + too_many) / 2) or nil
  end
  if kept then
    if kept ~= same or kept_parts ~= same_parts then
      local lives = kept - now
      if paid == 1 then
        same_value = string.format('%d', kept)
      else
        if 0 < kept_parts then lives = lives + 1 end
        same_value = string.format('%d%03d', kept, kept_parts)
      end
      -- The format rounds down, so it is rounded up; as a number it would take longer.
      same_millis = string.format('%d', (lives + 999) / 1000 + slack)
      same, same_parts = kept, kept_parts
    end
    call('PSETEX', name, same_millis, same_value)
  end
  reply[2 * index], reply[2 * index + 1] = passed, found
end
return reply
