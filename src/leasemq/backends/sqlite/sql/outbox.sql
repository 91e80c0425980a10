-- Read the oldest follow-ups.
-- In: :queue, :limit
-- Out: id, kind, child_queue, child_id, child_generation, parent_queue, parent_id, parent_generation,
--   on_failure, outcome, job
SELECT
    id, kind, child_queue, child_id, child_generation, parent_queue, parent_id, parent_generation,
    on_failure,
    outcome, job
FROM leasemq_outbox
WHERE queue = :queue
ORDER BY id
LIMIT :limit
