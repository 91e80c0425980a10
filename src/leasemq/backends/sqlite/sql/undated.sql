-- Find running jobs whose deadline is no number: nobody's lease ever ends there.
-- In: :queue, :limit
-- Out: lease rows, in no order
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
FROM (
    SELECT key FROM leasemq_job INDEXED BY leasemq_job_lease
    WHERE queue = :queue AND state = 'active' AND lease_until_ms IS NULL
    UNION ALL
    SELECT key FROM leasemq_job INDEXED BY leasemq_job_lease
    WHERE queue = :queue AND state = 'active' AND lease_until_ms >= ''
) AS u
CROSS JOIN leasemq_job AS j ON j.key = u.key
LEFT JOIN leasemq_body AS b ON b.job = j.key
LIMIT :limit
