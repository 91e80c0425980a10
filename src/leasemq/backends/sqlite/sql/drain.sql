-- Find jobs that have not started.
-- In: :queue, :limit
-- Out: job rows, the oldest accepted first
SELECT
    key, id, generation, state, attempts, fence, nonce, lease_until_ms, cancel_requested,
    settled_by, replays, due_ms, frees_key, dependants, request
FROM leasemq_job INDEXED BY leasemq_job_queue
WHERE queue = :queue AND state IN ('scheduled', 'waiting', 'blocked')
ORDER BY key
LIMIT :limit
