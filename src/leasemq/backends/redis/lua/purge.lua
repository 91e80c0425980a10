-- Deletes jobs that ended long enough ago, the longest ended first.
-- Uses: prelude asked terms plain; records moves operating dropping ended
-- Flags: allow-oom
-- In: limit, states (2 ^ (state - 1) for each), older_than_ms
-- Out: how many
local limit, states, until_ms = whole(3, 0, 1000), whole(4, 0, 255), NOW - whole(5, -2 ^ 53)
local found = {}
for state = COMPLETED, EXPIRED do
  if limit > 0 and has(states, 2 ^ (state - 1)) then
    for _, one in ipairs(ended_before(state, digits(until_ms), limit)) do
      found[#found + 1] = one
    end
  end
end
table.sort(found, function(one, other)
  if one[1] ~= other[1] then return one[1] < other[1] end
  return one[2] < other[2]
end)
local taken = math.min(#found, limit)
for at = 1, taken do
  local one = found[at]
  drop_listed({one[2]}, one[4], function() exit('ended:' .. one[4], one[3]) end)
end
finish()
return taken
