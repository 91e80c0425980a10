-- Mark a job as one that others wait for.
-- In: :job
-- Out: nothing
UPDATE leasemq_job SET dependants = 1 WHERE key = :job
