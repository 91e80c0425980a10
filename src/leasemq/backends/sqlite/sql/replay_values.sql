-- Forget what an earlier run left, but for its checkpoint.
-- In: :job
-- Out: nothing
DELETE FROM leasemq_value WHERE job = :job AND kind IN ('error', 'progress')
