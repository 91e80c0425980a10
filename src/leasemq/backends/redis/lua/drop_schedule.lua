-- Deletes a schedule from the tag of a queue.
-- Uses: tag asked
-- Flags: allow-oom
-- In: name, to (only if it is on its way to this queue; '': only if it is not on its way)
-- Out: 1: deleted; 0: it is on its way elsewhere, or not at all; -1: there was none
local key, to = P .. 'schedule:' .. text(3), text(4)
local found = call('HMGET', key, 'cursor', 'to')
if not found[1] then return -1 end
if (found[2] or '') ~= to then return 0 end
call('DEL', key)
return 1
