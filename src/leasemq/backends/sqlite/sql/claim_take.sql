-- Give leases: the jobs are active, each under its next fence.
-- In: :least_fence, :nonce, :incarnation, :worker, :claim_place, :now_ms, :lease_until_ms,
--   :keys (a JSON array)
-- Out: nothing
UPDATE leasemq_job
SET
    state = 'active',
    attempts = attempts + 1,
    fence = max(fence + 1, :least_fence),
    nonce = :nonce,
    incarnation = :incarnation,
    worker = :worker,
    claim_place = :claim_place,
    claimed_ms = :now_ms,
    renewed_ms = :now_ms,
    lease_until_ms = :lease_until_ms,
    attempt_replay = replay_starts,
    attempt_ended_ms = NULL,
    attempt_outcome = NULL,
    attempt_failed = 0,
    settled_by = NULL,
    replay_starts = 0,
    noted = 0
WHERE key IN (SELECT value FROM json_each(:keys))
