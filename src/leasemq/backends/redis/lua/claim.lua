-- Takes waiting jobs under new fences, or answers what an earlier try of this claim took.
-- Uses: prelude asked records moves taking
-- Flags: allow-oom
-- In: limit, lease_ms, nonce, incarnation, worker, takes suspect (0, 1)
-- Out: as `claim` of taking
local answer = claim(whole(3), whole(4), claimant_at(5))
finish()
return answer
