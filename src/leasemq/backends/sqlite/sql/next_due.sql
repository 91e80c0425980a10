-- Find when a scheduled job is due next.
-- In: :queue
-- Out: due_ms
SELECT due_ms
FROM leasemq_job INDEXED BY leasemq_job_due
WHERE queue = :queue AND state = 'scheduled'
ORDER BY due_ms
LIMIT 1
