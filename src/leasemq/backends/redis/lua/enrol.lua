-- Writes down which queue a schedule fills, if the caller saw what is written there.
-- Uses: tag asked
-- Flags:
-- In: name, queue seen ('': none), queue ('': forget the name)
-- Out: whether it is so now (0, 1)
local name, seen, queue = text(3), text(4), text(5)
local known = call('HGET', P .. 'names', name) or ''
if known ~= seen then return known == queue and 1 or 0 end
if queue == '' then
  call('HDEL', P .. 'names', name)
else
  call('HSET', P .. 'names', name, queue)
end
return 1
