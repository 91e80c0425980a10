-- Begins to move a schedule to another queue: from now on it fills none, until the move is carried out.
-- Uses: tag asked
-- Flags:
-- In: name, to (a queue), spec, cursor_ms as text, paused (0, 1)
-- Out: 1: begun; 0: it is on its way already, and nothing was done; -1: there is none
local key, to, spec = P .. 'schedule:' .. text(3), text(4), text(5, 2 ^ 24)
local cursor, paused = text(6), whole(7, 0, 1)
local number = tonumber(cursor)
if not number then error('argument 6 is not a number') end
local found = call('HMGET', key, 'cursor', 'to')
if not found[1] then return -1 end
if found[2] then return 0 end
if (tonumber(found[1]) or number) > number then cursor = found[1] end
call('HSET', key, 'spec', spec, 'cursor', cursor, 'paused', paused, 'to', to)
return 1
