-- Ends attempts, then takes waiting jobs, in one step.
-- Uses: prelude records moves settling taking
-- Flags: allow-oom
-- In: items (see settling), limit, lease_ms, nonce, incarnation, worker, takes suspect (0, 1)
-- Out: an answer per item, and what `claim` of taking answers
local answers = settle(ARGS[3])
flush()
local claimed = claim(ARGS[4], ARGS[5], {
  nonce = ARGS[6], incarnation = ARGS[7], worker = ARGS[8], takes_suspect = ARGS[9] == 1,
})
finish()
return {answers, claimed}
