-- Write the end of an attempt.
-- In: :state, :failures, :stalls, :suspect, :due_ms, :place, :now_ms, :settled_by, :outcome, :failed,
--   :ended_ms, :keep_until_ms, :result_until_ms, :prune_ms, :result, :key, :fence, :nonce
-- Out: nothing
UPDATE leasemq_job
SET
    state = :state,
    failures = :failures,
    stalls = :stalls,
    suspect = :suspect,
    reason = NULL,
    due_ms = :due_ms,
    place = :place,
    since_ms = :now_ms,
    lease_until_ms = NULL,
    attempt_ended_ms = :now_ms,
    attempt_outcome = :outcome,
    attempt_failed = :failed,
    settled_by = :settled_by,
    ended_ms = :ended_ms,
    keep_until_ms = :keep_until_ms,
    result_until_ms = :result_until_ms,
    prune_ms = :prune_ms,
    result = :result
WHERE key = :key AND state = 'active' AND fence = :fence AND nonce = :nonce
