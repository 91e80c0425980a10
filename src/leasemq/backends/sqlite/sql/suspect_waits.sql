-- Tell whether a suspect waits.
-- In: :queue, :now_ms
-- Out: one row if so
SELECT 1
FROM leasemq_job INDEXED BY leasemq_job_ready
WHERE queue = :queue AND state = 'waiting' AND suspect = 1 AND (expires_ms IS NULL OR expires_ms > :now_ms)
LIMIT 1
