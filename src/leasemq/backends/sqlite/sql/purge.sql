-- Find jobs that ended in one state up to an instant.
-- In: :queue, :state, :ended_ms, :limit
-- Out: ended_ms, then job rows; the longest ended first
SELECT
    ended_ms,
    key, id, generation, state, attempts, fence, nonce, lease_until_ms, cancel_requested,
    settled_by, replays, due_ms, frees_key, dependants, request, trail, noted
FROM leasemq_job INDEXED BY leasemq_job_ended
WHERE queue = :queue AND state = :state AND ended_ms IS NOT NULL AND ended_ms <= :ended_ms
ORDER BY ended_ms, key
LIMIT :limit
