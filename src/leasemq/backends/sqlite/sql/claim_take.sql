-- Give a lease: the job is active under its new fence.
-- In: :fence, :nonce, :incarnation, :worker, :claim_place, :now_ms, :lease_until_ms, :key
-- Out: nothing
UPDATE leasemq_job
SET
    state = 'active',
    attempts = attempts + 1,
    fence = :fence,
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
WHERE key = :key
