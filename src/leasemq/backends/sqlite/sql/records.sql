-- Read the records of these jobs, without what hangs on them.
-- In: :keys (a JSON array)
-- Out: record rows, newest accepted first
SELECT
    j.key, j.id, j.generation, j.state, j.priority, j.created_ms, j.due_ms, j.expires_ms,
    j.attempts, j.failures, j.stalls, j.suspect, j.cancel_requested, j.fence, j.lease_until_ms,
    j.ended_ms, j.keep_until_ms, j.result_until_ms, j.reason, j.replays, j.worker,
    j.incarnation, j.claimed_ms, j.renewed_ms, j.attempt_replay, j.attempt_ended_ms,
    j.attempt_outcome, j.attempt_failed, j.result, b.task, b.payload, b.overrides, b.headers, b.max_stalls,
    b.keep_result_ms, b.keep_record_ms, b.keep_dead_ms, b.unique_key, b.unique_mode, b.unique_until,
    b.unique_window_ms, b.creator_queue, b.creator_id, b.creator_generation, j.trail,
    b.born
FROM json_each(:keys) AS asked
CROSS JOIN leasemq_job AS j ON j.key = asked.value
LEFT JOIN leasemq_body AS b ON b.job = j.key
ORDER BY j.key DESC
