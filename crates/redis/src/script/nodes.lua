-- Tells that a node is there, and says how many are.
--
-- KEYS  a text: of each node its number, and when its lease is over
-- ARGV  the node; the lease, in milliseconds; how many nodes are kept
-- reply how many nodes there are, this one included

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local latest = now + ARGV[2]
local kept = { ARGV[1] .. ' ' .. string.format('%.0f', latest) }
for node, over in string.gmatch(redis.call('GET', KEYS[1]) or '', '(%x+) (%d+)') do
    over = tonumber(over)
    -- A lease that is longer than any was given before the clock was set back: its node says so
    -- again.
    if node ~= ARGV[1] and now < over and over <= latest and #kept < tonumber(ARGV[3]) then
        kept[#kept + 1] = node .. ' ' .. string.format('%.0f', over)
    end
end
redis.call('SET', KEYS[1], table.concat(kept, ';'), 'PX', ARGV[2])
return #kept
