-- Moves a state from the key of a former policy to that of the present one.
--
-- KEYS  the present key, the former key
-- ARGV  the state that was found under the former key; the same under the present policy, or
--       nothing if it is as good as fresh; how long to keep it, in milliseconds
-- reply 1 if it was moved, 0 if either key has changed meanwhile: then the caller asks again

if redis.call('GET', KEYS[2]) ~= ARGV[1] or redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('DEL', KEYS[2])
if ARGV[2] ~= '' then redis.call('PSETEX', KEYS[1], ARGV[3], ARGV[2]) end
return 1
