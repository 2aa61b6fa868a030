-- Fixed window, as published: a counter named by its window, which ends with it.
-- The caller compares the count with the limit, so that what is refused is counted as well.
--
-- KEYS[1]  whom it counts, with the start of the window
-- ARGV[1]  the end of the window in milliseconds

local current = redis.call('INCR', KEYS[1])
if current == 1 then
    redis.call('PEXPIREAT', KEYS[1], ARGV[1])
end
return current
