-- Enters a queue's name into the registry: before its first job.
-- Uses:
-- Flags:
-- In: KEYS[1] = the registry's prefix, ARGV[1] = the name
-- Out: 1
redis.call('ZADD', KEYS[1] .. 'queues', 0, ARGV[1])
return 1
