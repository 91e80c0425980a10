-- Find when the first running lease ends. NULL sorts before every number, text and blobs after them.
-- In: :queue
-- Out: lease_until_ms
SELECT CAST(lease_until_ms AS INTEGER)
FROM leasemq_job INDEXED BY leasemq_job_lease
WHERE queue = :queue AND state = 'active' AND lease_until_ms < ''
ORDER BY lease_until_ms
LIMIT 1
