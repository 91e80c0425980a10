-- Find ended jobs past their retention.
-- In: :queue, :now_ms, :limit
-- Out: job rows, the longest past it first
SELECT
    key, id, generation, state, attempts, fence, nonce, lease_until_ms, cancel_requested,
    settled_by, replays, due_ms, frees_key, dependants, request, trail, noted
FROM leasemq_job INDEXED BY leasemq_job_prune
WHERE queue = :queue AND prune_ms IS NOT NULL AND prune_ms <= :now_ms AND prune_ms = keep_until_ms
ORDER BY prune_ms, place
LIMIT :limit
