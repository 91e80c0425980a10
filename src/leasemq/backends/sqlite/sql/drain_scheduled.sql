-- Find scheduled jobs.
-- In: :queue, :limit
-- Out: job rows, the first due first
SELECT
    key, id, generation, state, attempts, fence, nonce, lease_until_ms, cancel_requested,
    settled_by, replays, due_ms, frees_key, dependants, request, trail, noted
FROM leasemq_job INDEXED BY leasemq_job_due
WHERE queue = :queue AND state = 'scheduled'
ORDER BY due_ms, place
LIMIT :limit
