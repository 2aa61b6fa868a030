-- Decides many requests that differ in their keys only, by one line whose cells are whole ticks.
--
-- narrow_line.lua would say the same. Most quotas are of this kind, and this has fewer arguments
-- and a shorter reply: what a script receives and returns takes longer than what it does. All
-- states are read at once, and a debt that still runs is added to, not written anew: each is one
-- command more or less, and together they are half of the time.
--
-- KEYS  one for each request, no two alike
-- ARGV  the weight of a request in ticks, and that of a burst
--       how many are alike of each request; with none given, one of each
--       behind those of all: now, in ticks, instead of the server's own clock, and the slack
-- reply one text, a line each: seconds and ticks of now, as the server's clock says them; then for
--       each request the state that was found, or nothing if it was as good as fresh; before it and
--       a slash how many passed, if not all alike did; or `!` and why, if it cannot be read.
--
-- The client puts SLACK before this: milliseconds that a state is kept for longer than it counts.

local keys, args, call, try = KEYS, ARGV, redis.call, redis.pcall
local find, format, number = string.find, string.format, tonumber
local DIGITS, DAMAGED = '^%d+$', '!not a state'
local reply, slack, ahead = call('TIME'), SLACK, 0
local now = reply[1] * 1000000 + reply[2]
local told = args[#keys + 3]
if told then
  now, ahead, slack = told + 0, now - told, args[#keys + 4] + 0
  reply = {'0', told}
end
local weight, full, counts = args[1] + 0, now + args[2], args[3]

-- A key of another type must not stop the other requests: one alone says what it is, but among
-- many it looks as if it were not there.
local values, are_many = nil, keys[2]
if are_many then values = call('MGET', unpack(keys)) else values = {try('GET', keys[1])} end

-- Most keys of a call are as good as fresh, and come to the same value: it is written out once.
local same, same_value, same_at

for index = 1, #keys do
  local name, value, count = keys[index], values[index], 1
  if counts then count = args[2 + index] + 0 end
  -- Where the debt meets zero, and whether it still runs.
  local from, runs, found = now, false, ''
  if value then
    local ticks = number(value)
    if ticks and now <= ticks and ticks < 9007199254740992 then
      from, runs = ticks, true
    elseif type(value) == 'table' then
      from, found = nil, '!' .. value.err
    elseif not find(value, DIGITS) or not (ticks < now) then
      -- Lua takes more for a number than we do. What is none compares as neither.
      from, found = nil, DAMAGED
    end
  end
  if from then
    local passed, kept = count, from + count * weight
    if full < kept then
      -- Both are whole and below 2^53, so a quotient below a whole number is never rounded to it.
      passed = math.max(0, math.floor((full - from) / weight))
      kept = from + passed * weight
    end
    local before
    if 0 < passed then
      if kept ~= same then
        same, same_value = kept, nil
        -- The format rounds down, so it is rounded up; as a number it would take longer.
        same_at = format('%d', (kept + ahead + 999) / 1000 + slack)
      end
      local by = args[1]
      if passed ~= 1 then by = format('%d', passed * weight) end
      if runs and try('INCRBY', name, by) == kept then
        call('PEXPIREAT', name, same_at)
        found = value
      elseif runs and not find(value, DIGITS) then
        found = DAMAGED
      else
        same_value = same_value or format('%d', kept)
        if value or not are_many then
          call('SET', name, same_value, 'PXAT', same_at)
        else
          before = try('SET', name, same_value, 'PXAT', same_at, 'GET')
          if before and not find(before.err, 'WRONGTYPE', 1, true) then
            -- Whatever else the server refuses stops all of them, in the server's own words.
            call('SET', name, same_value, 'PXAT', same_at)
            before = nil
          end
        end
        if runs then found = value end
      end
    elseif runs then
      found = find(value, DIGITS) and value or DAMAGED
    elseif are_many and not value then
      before = try('GET', name)
    end
    if before then
      found = '!' .. before.err
    elseif passed ~= count and found ~= DAMAGED then
      found = passed .. '/' .. found
    end
  end
  reply[index + 2] = found
end
return table.concat(reply, '\n')
