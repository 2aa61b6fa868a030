-- GCRA, as published: one string, the theoretical arrival time in seconds with a fraction.
-- The caller sends its own clock. The wait that it tells is short by one period; we do not read it.
--
-- KEYS[1]  whom it counts
-- ARGV     now in seconds, seconds per request, and how far ahead of now the arrival time may be

local key = KEYS[1]
local now = tonumber(ARGV[1])
local period = tonumber(ARGV[2])
local burst_offset = tonumber(ARGV[3])

local tat = tonumber(redis.call("GET", key)) or now

-- TAT moves forward by one period per request
local new_tat = math.max(tat, now) + period

-- Reject if the TAT is further into the future than the burst offset allows
if new_tat - now > burst_offset then
    local retry_after = tat - burst_offset - now
    return {0, retry_after}
end

-- Allow: store new TAT with a TTL proportional to burst capacity
redis.call("SET", key, new_tat, "EX", math.ceil(burst_offset + period))
return {1, 0}
