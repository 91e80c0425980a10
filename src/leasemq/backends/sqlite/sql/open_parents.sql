-- Tell whether a job has any parent left open.
-- In: :job
-- Out: one row if so
SELECT 1 FROM leasemq_parent WHERE job = :job LIMIT 1
