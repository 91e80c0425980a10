-- Reads results that outlived their record.
-- Uses: prelude asked
-- Flags: no-writes
-- In: ids, generations (0: the newest that is kept), one for each
-- Out: for each nil, or {generation, as it is stored}
local asked, generations = texts(3), wholes(4)
local answers = {}
for at, id in ipairs(asked) do
  local best = generations[at]
  local flat = booked('slips') > 0 and call('HGETALL', P .. 'v:' .. id) or {}
  answers[at] = false
  for place_in = 1, #flat, 2 do
    local generation = tonumber(flat[place_in])
    local is_kept = unpacked('>I6', flat[place_in + 1]) > NOW
    if is_kept and (generation == generations[at] or (generations[at] == 0 and generation > best)) then
      best, answers[at] = generation, {generation, flat[place_in + 1]}
    end
  end
end
return answers
