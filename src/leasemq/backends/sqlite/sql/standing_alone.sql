-- List the lives of workers that run a suspect.
-- In: :queue, :limit
-- Out: incarnation; sorted
SELECT DISTINCT incarnation
FROM leasemq_job INDEXED BY leasemq_job_lease
WHERE queue = :queue AND state = 'active' AND suspect = 1
ORDER BY incarnation
LIMIT :limit
