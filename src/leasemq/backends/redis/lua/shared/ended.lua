-- Jobs that ended, by when they did.
local function ended_before(state, until_ms, limit) -- READS a lane: {ended, number, its entry, state} each
  local flat = call('ZRANGEBYSCORE', P .. 'ended:' .. state, '-inf', until_ms, 'WITHSCORES', 'LIMIT', 0, limit)
  local found = {}
  for at = 1, #flat, 2 do
    found[#found + 1] = {tonumber(flat[at + 1]), unpacked('>I6', flat[at]), flat[at], state}
  end
  return found
end
