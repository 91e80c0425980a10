-- Find the leases of one life of a worker.
-- In: :queue, :incarnation
-- Out: lease rows, oldest first
SELECT
    j.key, j.id, j.generation, j.fence, j.nonce, j.attempts, j.failures, j.stalls, j.created_ms,
    j.lease_until_ms, j.incarnation, j.suspect, j.cancel_requested, j.attempt_outcome, j.frees_key,
    b.task, b.payload, b.overrides, b.headers, b.max_stalls, b.keep_result_ms, b.keep_record_ms,
    b.keep_dead_ms,
    b.unique_key,
    CASE
        WHEN j.attempts > 0 OR j.replays > 0
            THEN (SELECT v.value FROM leasemq_value AS v WHERE v.job = j.key AND v.kind = 'checkpoint')
    END,
    j.trail
FROM leasemq_job AS j INDEXED BY leasemq_job_lease
LEFT JOIN leasemq_body AS b ON b.job = j.key
WHERE j.queue = :queue AND j.state = 'active' AND j.incarnation = :incarnation
ORDER BY j.claim_place, j.priority DESC, j.place
