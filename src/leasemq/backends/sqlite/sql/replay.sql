-- Start a new run of a job that ended: fresh counters and ttl, the newest attempt already kept.
-- In: :state, :request, :now_ms, :expires_ms, :place, :key
-- Out: nothing
UPDATE leasemq_job
SET
    state = :state,
    place = :place,
    since_ms = :now_ms,
    due_ms = :now_ms,
    expires_ms = :expires_ms,
    attempts = 0,
    failures = 0,
    stalls = 0,
    suspect = 0,
    cancel_requested = 0,
    attempt_ended_ms = NULL,
    attempt_outcome = NULL,
    attempt_failed = 0,
    settled_by = NULL,
    ended_ms = NULL,
    keep_until_ms = NULL,
    result_until_ms = NULL,
    prune_ms = NULL,
    reason = NULL,
    result = NULL,
    replays = replays + 1,
    replay_request = :request,
    replay_starts = 1
WHERE key = :key
