-- Find ended jobs whose record, or before that whose result, is past its retention.
-- In: :queue, :now_ms, :limit
-- Out: whether the record is over, and whether a result outlives it; then job rows, the longest past it first
SELECT
    keep_until_ms <= :now_ms,
    state = 'completed' AND result IS NOT NULL AND result_until_ms > :now_ms,
    key, id, generation, state, attempts, fence, nonce, lease_until_ms, cancel_requested,
    settled_by, replays, due_ms, frees_key, dependants, request, trail, noted
FROM leasemq_job INDEXED BY leasemq_job_prune
WHERE queue = :queue AND prune_ms IS NOT NULL AND prune_ms <= :now_ms
ORDER BY prune_ms, place
LIMIT :limit
