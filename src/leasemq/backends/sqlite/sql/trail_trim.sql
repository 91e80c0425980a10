-- Forget all but the newest entries of a job's trail.
-- In: :job, :keep
-- Out: nothing
DELETE FROM leasemq_trail
WHERE job = :job AND number <= (SELECT max(number) FROM leasemq_trail WHERE job = :job) - :keep
