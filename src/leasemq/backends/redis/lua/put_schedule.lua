-- Puts a schedule into the tag of the queue that it fills. The later of the two cursors stays.
-- Uses: tag asked
-- Flags:
-- In: name, mode (0: what may lie there is a leftover; 1: it is replaced; 2: it stays, unless it is a leftover
--   of an earlier move), spec, cursor_ms as text, paused (0, 1)
-- Out: 1; 0: it is on its way to another queue, and nothing was done
local key, mode, spec = P .. 'schedule:' .. text(3), whole(4, 0, 2), text(5, 2 ^ 24)
local cursor, paused = text(6), whole(7, 0, 1)
local number = tonumber(cursor)
if not number then error('argument 6 is not a number') end
local found = call('HMGET', key, 'cursor', 'to')
if mode == 1 and found[1] then
  if found[2] then return 0 end
  if (tonumber(found[1]) or number) > number then cursor = found[1] end
elseif mode == 2 and found[1] and not found[2] then
  return 1
end
call('DEL', key)
call('HSET', key, 'spec', spec, 'cursor', cursor, 'paused', paused)
return 1
