-- Find scheduled jobs that are due.
-- In: :queue, :now_ms, :limit
-- Out: job rows, by due time, then in the order in which they were scheduled
SELECT
    key, id, generation, state, attempts, fence, nonce, lease_until_ms, cancel_requested,
    settled_by, replays, due_ms, frees_key, dependants, request, trail, noted
FROM leasemq_job INDEXED BY leasemq_job_due
WHERE queue = :queue AND state = 'scheduled' AND due_ms <= :now_ms
ORDER BY due_ms, place
LIMIT :limit
