-- Forget all but the newest stale writes.
-- In: :job, :keep
-- Out: nothing
DELETE FROM leasemq_refused
WHERE job = :job AND number <= (SELECT refused_count FROM leasemq_job WHERE key = :job) - :keep
