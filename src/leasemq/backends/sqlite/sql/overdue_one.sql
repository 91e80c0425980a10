-- Find a job if it was not started within its ttl.
-- In: :queue, :id, :generation, :now_ms
-- Out: a job row
SELECT
    key, id, generation, state, attempts, fence, nonce, lease_until_ms, cancel_requested,
    settled_by, replays, due_ms, frees_key, dependants, request, trail, noted
FROM leasemq_job
WHERE
    queue = :queue
    AND id = :id
    AND generation = :generation
    AND state IN ('scheduled', 'waiting', 'blocked')
    AND expires_ms IS NOT NULL
    AND expires_ms <= :now_ms
