-- Reads schedules that fill this queue.
-- Uses: tag asked
-- Flags: no-writes
-- In: names
-- Out: for each nil, or spec, cursor_ms, paused, to (where it is on its way; nil: nowhere)
local answer = {}
for at, name in ipairs(texts(3)) do
  local found = call('HMGET', P .. 'schedule:' .. name, 'spec', 'cursor', 'paused', 'to')
  answer[at] = found[2] and found or false
end
return answer
