-- Find when a scheduled job is due next. Text and blobs sort after every number.
-- In: :queue
-- Out: due_ms
SELECT CAST(due_ms AS INTEGER)
FROM leasemq_job INDEXED BY leasemq_job_due
WHERE queue = :queue AND state = 'scheduled' AND due_ms < ''
ORDER BY due_ms
LIMIT 1
