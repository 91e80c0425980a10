-- Find jobs that were not started within their ttl.
-- In: :queue, :now_ms, :limit
-- Out: job rows, the first to go stale first, then in order of acceptance
SELECT
    key, id, generation, state, attempts, fence, nonce, lease_until_ms, cancel_requested,
    settled_by, replays, due_ms, frees_key, dependants, request, trail, noted
FROM leasemq_job INDEXED BY leasemq_job_ttl
WHERE
    queue = :queue
    AND state IN ('scheduled', 'waiting', 'blocked')
    AND expires_ms IS NOT NULL
    AND expires_ms <= :now_ms
ORDER BY expires_ms, key
LIMIT :limit
