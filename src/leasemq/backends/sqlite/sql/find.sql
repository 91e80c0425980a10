-- Find jobs of a queue, walking from the newest accepted; a page begins where the last one ended.
-- In: :queue, :before, :states (a JSON array), :task, :id_prefix, :reason, :from_ms, :until_ms, :limit
-- Out: key; newest accepted first
SELECT j.key
FROM leasemq_job AS j INDEXED BY leasemq_job_queue
WHERE
    j.queue = :queue
    AND j.key < :before
    AND (:states IS NULL OR j.state IN (SELECT value FROM json_each(:states)))
    AND (:task IS NULL OR :task = (SELECT b.task FROM leasemq_body AS b WHERE b.job = j.key))
    AND (:id_prefix IS NULL OR substr(j.id, 1, length(:id_prefix)) = :id_prefix)
    AND (:reason IS NULL OR j.reason = :reason)
    AND (:from_ms IS NULL OR coalesce(j.ended_ms, j.created_ms) >= :from_ms)
    AND (:until_ms IS NULL OR coalesce(j.ended_ms, j.created_ms) <= :until_ms)
ORDER BY j.key DESC
LIMIT :limit
