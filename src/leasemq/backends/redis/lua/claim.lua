-- Takes waiting jobs under new fences, or answers what an earlier try of this claim took.
-- Uses: prelude asked terms plain starting; records moves taking
-- Flags: allow-oom
-- In: limit, lease_ms, nonce, incarnation, worker, takes suspect (0, 1)
-- Out: as `claim` of taking
local limit, lease_ms, claimant = whole(3), whole(4), claimant_at(5)
local answer, begun = claim_plainly(limit, lease_ms, claimant)
if answer then
  finish()
  return answer
end
-- THE REST
answer = claim(limit, lease_ms, claimant, begun)
finish()
return answer
