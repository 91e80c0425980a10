-- Answers who the store is, and gives a new one its id.
-- Uses:
-- Flags: allow-oom
-- In: KEYS[1] = the store's prefix, ARGV[1] = an id for a new one, ARGV[2] = the format of a new one
-- Out: its id, its format
if #ARGV ~= 2 then error('an id and a format are asked for') end
redis.call('HSETNX', KEYS[1] .. 'store', 'id', ARGV[1])
redis.call('HSETNX', KEYS[1] .. 'store', 'format', ARGV[2])
return redis.call('HMGET', KEYS[1] .. 'store', 'id', 'format')
