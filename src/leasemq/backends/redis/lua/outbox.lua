-- Reads follow-ups, oldest first, as many as fit into a mebibyte, and one at least.
-- Uses: prelude asked
-- Flags: no-writes
-- In: after (the number of the last one read; 0 to begin), limit
-- Out: follow-ups as they are stored
local after, limit = whole(3), whole(4, 0, 1000)
local found, size, left = {}, 0, limit
while left > 0 do
  local part_of = math.min(left, 20)
  local entries = call('ZRANGEBYSCORE', P .. 'outbox', '(' .. digits(after), '+inf', 'LIMIT', 0, part_of)
  for _, entry in ipairs(entries) do
    size = size + #entry
    if size > 1048576 and #found > 0 then return found end
    found[#found + 1] = entry
    after = unpacked('>I6', entry)
  end
  left = #entries == part_of and left - part_of or 0
end
return found
