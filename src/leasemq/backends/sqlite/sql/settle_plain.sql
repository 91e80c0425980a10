-- Write that a holder's first attempt completed, if it is held under this fence and nothing hangs on its end.
-- In: :place, :now_ms, :settled_by, :keep_until_ms, :result_until_ms, :prune_ms, :result, :queue, :id,
--   :generation, :fence, :nonce
-- Out: nothing
UPDATE leasemq_job
SET
    state = 'completed',
    failures = 0,
    stalls = 0,
    suspect = 0,
    reason = NULL,
    place = :place,
    since_ms = :now_ms,
    lease_until_ms = NULL,
    attempt_ended_ms = :now_ms,
    attempt_outcome = 'completed',
    attempt_failed = 0,
    settled_by = :settled_by,
    ended_ms = :now_ms,
    keep_until_ms = :keep_until_ms,
    result_until_ms = :result_until_ms,
    prune_ms = :prune_ms,
    result = :result
WHERE
    queue = :queue AND id = :id AND generation = :generation
    AND state = 'active' AND fence = :fence AND nonce = :nonce
    AND attempts = 1 AND replays = 0
    AND cancel_requested = 0 AND frees_key = 0 AND dependants = 0 AND trail = 0
