-- Read the earlier attempts of these jobs.
-- In: :keys (a JSON array)
-- Out: job, number, worker, incarnation, fence, claimed_ms, renewed_ms, ended_ms, outcome, error,
--   replay; oldest first
SELECT
    a.job, a.number, a.worker, a.incarnation, a.fence, a.claimed_ms, a.renewed_ms, a.ended_ms, a.outcome,
    a.error,
    a.replay
FROM json_each(:keys) AS asked
CROSS JOIN leasemq_attempt AS a ON a.job = asked.value
ORDER BY a.job, a.fence
