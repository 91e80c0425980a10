-- Ends attempts, then takes waiting jobs, in one step.
-- Uses: prelude asked terms plain starting completing; records moves settling taking
-- Flags: allow-oom
-- In: rows (see completing), limit, lease_ms, nonce, incarnation, worker, takes suspect (0, 1)
-- Out: an answer per settlement, one byte each, and what `claim` of taking answers
local rows_in, limit, lease_ms, claimant = endings(3), whole(4), whole(5), claimant_at(6)
local answers = settle(rows_in, settle_one)
flush()
local claimed, begun = claim_plainly(limit, lease_ms, claimant)
if not claimed then claimed = claim(limit, lease_ms, claimant, begun) end
finish()
return {answers, claimed}
