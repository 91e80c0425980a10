-- Shows a life of a worker until its announcement lapses; forgets up to a hundred of those that did lapse.
-- Uses: tag asked
-- Flags: allow-oom
-- In: ttl_ms, incarnation, info
-- Out: 1
local ttl_ms, incarnation, info = whole(3), text(4), text(5, 2 ^ 24)
local lives, ends = P .. 'lives', P .. 'ends'
local lapsed = call('ZRANGEBYSCORE', ends, '-inf', digits(NOW), 'LIMIT', 0, 100)
if #lapsed > 0 then
  call('HDEL', lives, unpack(lapsed))
  call('ZREM', ends, unpack(lapsed))
end
call('ZADD', ends, digits(NOW + ttl_ms), incarnation)
call('HSET', lives, incarnation, digits(NOW) .. ' ' .. digits(NOW + ttl_ms) .. ' ' .. info)
return 1
