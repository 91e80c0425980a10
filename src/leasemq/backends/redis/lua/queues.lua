-- Reads a part of the registry of queues.
-- Uses: tag asked
-- Flags: no-writes
-- In: cursor (of the part before; '0' to begin)
-- Out: the next cursor ('0': that was all), {name, '0' or '1': it was only paused so far} each, flat
return call('ZSCAN', P .. 'queues', text(3), 'COUNT', 500)
