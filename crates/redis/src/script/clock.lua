-- What time it is: the first argument, in ticks, or the server's own clock if that is empty.

local call = redis.call
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = now + 0
end

