-- Find when the first running lease ends.
-- In: :queue
-- Out: lease_until_ms
SELECT lease_until_ms
FROM leasemq_job INDEXED BY leasemq_job_lease
WHERE queue = :queue AND state = 'active'
ORDER BY lease_until_ms
LIMIT 1
