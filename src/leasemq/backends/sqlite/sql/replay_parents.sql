-- Forget the parents that a job still waited for.
-- In: :job
-- Out: nothing
DELETE FROM leasemq_parent WHERE job = :job
