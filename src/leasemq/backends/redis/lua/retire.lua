-- Takes a life of a worker out of those that are shown.
-- Uses: tag asked
-- Flags: allow-oom
-- In: incarnation
-- Out: 1
local incarnation = text(3)
call('ZREM', P .. 'ends', incarnation)
call('HDEL', P .. 'lives', incarnation)
return 1
