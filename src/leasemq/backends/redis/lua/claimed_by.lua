-- Answers the active leases of one life of a worker, oldest first.
-- Uses: prelude asked terms plain; records moves taking
-- Flags: no-writes
-- In: incarnation
-- Out: leases, terms
local incarnation, found = text(3), {}
for _, nonce in ipairs(call('SMEMBERS', P .. 'o:' .. incarnation)) do
  for _, job in ipairs(with_nonce(nonce)) do
    if job.run.incarnation == incarnation then found[#found + 1] = job end
  end
end
table.sort(found, function(one, other) return one.place < other.place end)
know_terms(found)
return {leases_of(found), terms_told()}
