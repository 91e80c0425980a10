-- Move the newest attempts of these jobs, which have ended, into their history.
-- In: :keys (a JSON array)
-- Out: nothing
INSERT INTO leasemq_attempt (
    job, fence, number, worker, incarnation, claimed_ms, renewed_ms, ended_ms, outcome, error, replay,
    settled_by
)
SELECT
    j.key, j.fence, j.attempts, j.worker, j.incarnation, j.claimed_ms, j.renewed_ms, j.attempt_ended_ms,
    j.attempt_outcome, v.value, j.attempt_replay, j.settled_by
FROM json_each(:keys) AS asked
CROSS JOIN leasemq_job AS j ON j.key = asked.value
LEFT JOIN leasemq_value AS v ON j.attempt_failed = 1 AND v.job = j.key AND v.kind = 'error'
WHERE j.attempt_outcome IS NOT NULL
