-- Tells what is left by a node, and says the smallest of what nodes told lately.
--
-- KEYS  a hash: by node, its factor and when its lease is over
-- ARGV  the node; its factor in millionths, or nothing if it knows nothing; the lease, in
--       milliseconds; how many nodes are kept
-- reply the smallest factor, or an empty text if nobody knows anything

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('HGETALL', KEYS[1])
local least, nodes = '', 0
for at = 1, #known, 2 do
    local factor, over = string.match(known[at + 1], '^(%d+) (%d+)$')
    if known[at] == ARGV[1] or not factor or tonumber(over) <= now then
        redis.call('HDEL', KEYS[1], known[at])
    else
        nodes = nodes + 1
        if least == '' or tonumber(factor) < tonumber(least) then least = factor end
    end
end
if ARGV[2] ~= '' and nodes < tonumber(ARGV[4]) then
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. string.format('%.0f', now + ARGV[3]))
    -- As long as the longest of their leases, no matter which node wrote last.
    if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
        redis.call('PEXPIRE', KEYS[1], ARGV[3])
    end
end
if ARGV[2] ~= '' and (least == '' or tonumber(ARGV[2]) < tonumber(least)) then least = ARGV[2] end
return least
