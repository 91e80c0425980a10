-- Find active jobs whose cancellation was requested.
-- In: :queue
-- Out: id, generation
SELECT id, generation
FROM leasemq_job INDEXED BY leasemq_job_lease
WHERE queue = :queue AND state = 'active' AND cancel_requested = 1
