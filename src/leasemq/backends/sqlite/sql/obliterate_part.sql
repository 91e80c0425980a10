-- Find the jobs of a queue that were accepted up to a key; running ones only with force.
-- In: :queue, :until_key, :force, :limit
-- Out: job rows, the oldest accepted first
SELECT
    key, id, generation, state, attempts, fence, nonce, lease_until_ms, cancel_requested,
    settled_by, replays, due_ms, frees_key, dependants, request, trail, noted
FROM leasemq_job INDEXED BY leasemq_job_queue
WHERE queue = :queue AND key <= :until_key AND (:force OR state <> 'active')
ORDER BY key
LIMIT :limit
