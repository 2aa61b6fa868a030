-- Sliding log, as published: a sorted set with a member for each request that passed.
-- The caller sends its own clock; a random number keeps requests of one millisecond apart.
--
-- KEYS[1]  whom it counts
-- ARGV     now in milliseconds, the start of the window, the limit, the time to live in seconds

local key = KEYS[1]
local now = tonumber(ARGV[1])
local window_start = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])
local ttl = tonumber(ARGV[4])

-- Remove expired entries
redis.call('ZREMRANGEBYSCORE', key, '-inf', window_start)

-- Count current entries
local count = redis.call('ZCARD', key)

if count < limit then
    -- Add current timestamp with unique score (timestamp + random)
    redis.call('ZADD', key, now, tostring(now) .. tostring(math.random()))
    redis.call('EXPIRE', key, ttl)
    return {1, limit - count - 1} -- {allowed, remaining}
else
    -- Get oldest entry to calculate retry-after
    local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    local oldest_ts = tonumber(oldest[2]) or now
    return {0, 0, oldest_ts} -- {not allowed, remaining=0, oldest_ts}
end
