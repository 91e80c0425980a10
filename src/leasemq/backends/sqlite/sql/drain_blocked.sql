-- Find blocked jobs.
-- In: :queue, :limit
-- Out: job rows, the oldest accepted first
SELECT
    key, id, generation, state, attempts, fence, nonce, lease_until_ms, cancel_requested,
    settled_by, replays, due_ms, frees_key, dependants, request, trail, noted
FROM leasemq_job INDEXED BY leasemq_job_blocked
WHERE queue = :queue AND state = 'blocked'
ORDER BY key
LIMIT :limit
