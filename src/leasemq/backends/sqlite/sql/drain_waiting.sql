-- Find waiting jobs.
-- In: :queue, :limit
-- Out: job rows, in the order of claims
SELECT
    key, id, generation, state, attempts, fence, nonce, lease_until_ms, cancel_requested,
    settled_by, replays, due_ms, frees_key, dependants, request, trail, noted
FROM leasemq_job INDEXED BY leasemq_job_ready
WHERE queue = :queue AND state = 'waiting'
ORDER BY suspect, priority DESC, place
LIMIT :limit
