-- Reads events of this queue after one that was seen.
-- Uses: prelude asked
-- Flags: no-writes
-- In: after (a number; -1: the earliest that are kept; -2: none, only where they end), limit
-- Out: the last that is no longer kept, the newest, entries: {last number, at_ms, how many, events} each
local after, limit = whole(3, -2), whole(4, 0, 10000)
local newest = booked('events')
local trimmed = math.max(booked('events_trimmed'), newest - EVENT_LIMIT, 0)
local first = after == -1 and trimmed or after
local answer, told = {}, 0
if first < trimmed or first > newest then limit = 0 end
local from = digits(math.max(first, 0) + 1) .. '-0'
while told < limit do
  local entries = call('XRANGE', P .. 'events', from, '+', 'COUNT', math.min(100, limit - told))
  for _, entry in ipairs(entries) do
    local last, number = string.match(entry[1], '^%d+'), tonumber(entry[2][4])
    told = told + math.min(number, tonumber(last) - first)
    answer[#answer + 1] = {last, entry[2][2], number, entry[2][6]}
    from = '(' .. entry[1]
    if told >= limit then break end
  end
  if #entries < 100 then break end
end
return {digits(trimmed), digits(newest), answer}
