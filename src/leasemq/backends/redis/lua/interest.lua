-- Registers who waits for ends of lives, and who follows the queue's events; both lapse in ttl_ms.
-- Uses: prelude asked terms plain; records moves
-- Flags: allow-oom
-- In: ttl_ms, follows (0 or 1), lives: generation (4 bytes) and id each
-- Out: those of the lives that have ended, or are gone
local ttl_ms, follows, lives = whole(3, 1, 2 ^ 40), whole(4, 0, 1), texts(5)
local key, over, flat = P .. 'interest', {}, {}
for at, name in ipairs(lives) do
  local job = read(sub(name, 5))
  if not job or (job.generation == unpacked('>I4', name) and (job.state or 0) >= COMPLETED) then
    over[#over + 1] = name
  end
  flat[2 * at - 1], flat[2 * at] = NOW + ttl_ms, name
end
if #flat > 0 then
  call('ZREMRANGEBYSCORE', key, '-inf', NOW)
  for first = 1, #flat, BATCH do
    call('ZADD', key, 'GT', unpack(flat, first, math.min(first + BATCH - 1, #flat)))
  end
  call('PEXPIRE', key, 2 * ttl_ms) -- the last one that waits leaves no key behind
end
if follows == 1 then amend('followed_until', math.max(booked('followed_until'), NOW + ttl_ms)) end
finish()
return over
