-- Forgets follow-ups that were carried out.
-- Uses: prelude asked
-- Flags: allow-oom
-- In: their numbers
-- Out: 1
for _, id in ipairs(wholes(3)) do
  call('ZREMRANGEBYSCORE', P .. 'outbox', digits(id), digits(id))
end
return 1
