-- Find jobs in states that few jobs are in, without walking past all the others.
-- In: :queue, :past, :states (a JSON array), :task, :id_prefix, :reason, :from_ms, :until_ms, :limit,
--   :way (1: oldest accepted first, -1: newest first),
--   :waiting (whether asked for), :scheduled, :blocked, :active
-- Out: key; in the order of acceptance asked for
WITH few AS MATERIALIZED (
    SELECT key
    FROM leasemq_job INDEXED BY leasemq_job_ready
    WHERE :waiting AND queue = :queue AND state = 'waiting'
    UNION ALL
    SELECT key
    FROM leasemq_job INDEXED BY leasemq_job_due
    WHERE :scheduled AND queue = :queue AND state = 'scheduled'
    UNION ALL
    SELECT key
    FROM leasemq_job INDEXED BY leasemq_job_blocked
    WHERE :blocked AND queue = :queue AND state = 'blocked'
    UNION ALL
    SELECT key
    FROM leasemq_job INDEXED BY leasemq_job_lease
    WHERE :active AND queue = :queue AND state = 'active'
    UNION ALL
    SELECT key
    FROM leasemq_job INDEXED BY leasemq_job_ended
    WHERE
        queue = :queue
        AND state IN (SELECT value FROM json_each(:states))
        AND ended_ms IS NOT NULL
)
SELECT j.key
FROM few
CROSS JOIN leasemq_job AS j ON j.key = few.key
WHERE
    j.queue = :queue
    AND j.key * :way > :past * :way
    AND (:states IS NULL OR j.state IN (SELECT value FROM json_each(:states)))
    AND (:task IS NULL OR :task = (SELECT b.task FROM leasemq_body AS b WHERE b.job = j.key))
    AND (:id_prefix IS NULL OR substr(j.id, 1, length(:id_prefix)) = :id_prefix)
    AND (:reason IS NULL OR j.reason = :reason)
    AND (:from_ms IS NULL OR coalesce(j.ended_ms, j.created_ms) >= :from_ms)
    AND (:until_ms IS NULL OR coalesce(j.ended_ms, j.created_ms) <= :until_ms)
ORDER BY j.key * :way
LIMIT :limit
