-- Reads a part of the workers whose announcement is still good.
-- Uses: tag asked
-- Flags: no-writes
-- In: cursor (of the part before; '0' to begin)
-- Out: the next cursor ('0': that was all), {when it was seen, info} each
local part = call('HSCAN', P .. 'lives', text(3), 'COUNT', 500)
local found = {}
for at = 2, #part[2], 2 do
  local seen_ms, until_ms, info = string.match(part[2][at], '^(%d+) (%d+) (.*)$')
  if seen_ms and tonumber(until_ms) > NOW then found[#found + 1] = {seen_ms, info} end
end
return {part[1], found}
