-- Decides many requests that differ in their keys only, by one line whose cells are whole ticks.
--
-- narrow_line.lua would say the same. Most quotas are of this kind, and this has fewer arguments
-- and a shorter reply: what a script is told and tells takes longer than what it does.
--
-- KEYS  one for each request
-- ARGV  now, in ticks, or empty for the server's own clock
--       slack: milliseconds that a state is kept for longer than it counts
--       the weight of a request in ticks, and that of a burst
--       how many are alike of each request; with none given, one of each
-- reply seconds and ticks of now, as the server's clock says them; then for each request the state
--       that was found, if all alike passed; if not, how many did, and that state. -2 for how many
--       if the state cannot be read, and why.

local call, get, format = redis.call, redis.pcall, string.format
local reply, now
if ARGV[1] == '' then
  reply = call('TIME')
  now = reply[1] * 1000000 + reply[2]
else
  reply, now = {'0', ARGV[1]}, ARGV[1] + 0
end
local slack, weight, full = ARGV[2] + 0, ARGV[3] + 0, now + ARGV[4]
local counts = ARGV[5]

-- Most keys of a call are as good as fresh, and come to the same value: it is written out once.
local same, same_value, same_millis

for index = 1, #KEYS do
  local name, count = KEYS[index], 1
  if counts then count = ARGV[4 + index] + 0 end
  local value = get('GET', name)
  local ticks, found = now, value or ''
  if value then
    if type(value) == 'table' then
      -- A key of another type must not stop the other requests.
      ticks, found = nil, value.err
    else
      ticks = tonumber(value)
      -- What is no number, or not one of ours, compares as neither.
      if not ticks or not (0 <= ticks and ticks < 9007199254740992) then
        ticks, found = nil, 'not a state'
      elseif ticks < now then
        ticks = now
      end
    end
  end
  local passed = count
  if not ticks then
    passed = -2
  elseif full < ticks + count * weight then
    -- Both are whole and below 2^53, so a quotient below a whole number is never rounded to it.
    passed = math.max(0, math.floor((full - ticks) / weight))
  end
  if 0 < passed then
    local kept = ticks + passed * weight
    if kept ~= same then
      same, same_value = kept, format('%d', kept)
      -- The format rounds down, so it is rounded up; as a number it would take longer.
      same_millis = format('%d', (kept - now + 999) / 1000 + slack)
    end
    call('PSETEX', name, same_millis, same_value)
  end
  if passed ~= count then found = {passed, found} end
  reply[index + 2] = found
end
return reply
