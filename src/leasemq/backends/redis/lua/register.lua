-- Enters a queue's name into the registry: before its first job, or when it is paused.
-- Uses: tag asked
-- Flags: allow-oom
-- In: name, 1 if it was only paused so far
-- Out: 1
local name, is_paused = text(3), ARGS[4] == 1
if not is_paused then
  call('ZADD', P .. 'queues', 0, name)
else
  call('ZADD', P .. 'queues', 'NX', 1, name)
end
return 1
