-- Takes waiting jobs under new fences, or answers what an earlier try of this claim took.
-- Uses: prelude records moves taking
-- Flags: allow-oom
-- In: limit, lease_ms, nonce, incarnation, worker, takes suspect (0, 1)
-- Out: as `claim` of taking
local answer = claim(ARGS[3], ARGS[4], {
  nonce = ARGS[5], incarnation = ARGS[6], worker = ARGS[7], takes_suspect = ARGS[8] == 1,
})
finish()
return answer
