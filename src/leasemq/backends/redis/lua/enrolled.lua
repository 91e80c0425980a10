-- Reads which queue a schedule fills, or a part of all.
-- Uses: tag asked
-- Flags: no-writes
-- In: name, or '' and the cursor of the part before ('0' to begin)
-- Out: the queue or nil; or the next cursor ('0': that was all), and name and queue in turn
local name, cursor = text(3), text(4)
if name ~= '' then return call('HGET', P .. 'names', name) end
return call('HSCAN', P .. 'names', cursor, 'COUNT', 500)
