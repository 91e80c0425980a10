-- Ends attempts, then takes waiting jobs, in one step.
-- Uses: prelude asked records moves settling taking
-- Flags: allow-oom
-- In: items (see settling), limit, lease_ms, nonce, incarnation, worker, takes suspect (0, 1)
-- Out: an answer per item, and what `claim` of taking answers
local items, limit, lease_ms, claimant = endings(3), whole(4), whole(5), claimant_at(6)
local answers = settle(items)
flush()
local claimed = claim(limit, lease_ms, claimant)
finish()
return {answers, claimed}
