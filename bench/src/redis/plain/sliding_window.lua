-- Sliding window counter, as published: a counter for each window, the one before weighed by how
-- much of it is still in sight. The caller sends its own clock.
--
-- KEYS  whom it counts, with the start of this window, and with that of the one before
-- ARGV  the limit, the window in milliseconds, its start, now

local current_key = KEYS[1]
local prev_key = KEYS[2]
local limit = tonumber(ARGV[1])
local window_ms = tonumber(ARGV[2])
local current_window_start = tonumber(ARGV[3])
local now = tonumber(ARGV[4])

-- Get counts from both windows
local current_count = tonumber(redis.call('GET', current_key) or 0)
local prev_count = tonumber(redis.call('GET', prev_key) or 0)

-- Calculate weight for previous window
local elapsed_in_current = now - current_window_start
local prev_weight = (window_ms - elapsed_in_current) / window_ms

-- Estimated sliding window count
local estimated = current_count + prev_count * prev_weight

if estimated < limit then
    -- Increment current window counter
    local new_count = redis.call('INCR', current_key)
    if new_count == 1 then
        -- Set TTL for 2 windows (current + next)
        redis.call('PEXPIRE', current_key, window_ms * 2)
    end
    return {1, math.floor(limit - estimated - 1)}
else
    -- Calculate retry: time until oldest counted request expires
    local retry_ms = window_ms - elapsed_in_current
    return {0, 0, retry_ms}
end
