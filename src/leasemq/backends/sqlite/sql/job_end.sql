-- End a job that no settlement ends: cancelled, expired, or failed for a parent or as corrupt.
-- In: :state, :reason, :now_ms, :keep_until_ms, :place, :key
-- Out: nothing
UPDATE leasemq_job
SET
    state = :state,
    reason = coalesce(:reason, reason),
    since_ms = :now_ms,
    place = :place,
    lease_until_ms = NULL,
    ended_ms = :now_ms,
    keep_until_ms = :keep_until_ms,
    prune_ms = :keep_until_ms
WHERE key = :key
