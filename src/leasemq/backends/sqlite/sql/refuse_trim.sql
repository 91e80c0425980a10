-- Forget all but the newest stale writes; the newest number is how many there were.
-- In: :job, :keep
-- Out: nothing
DELETE FROM leasemq_refused
WHERE job = :job AND number <= (SELECT max(number) FROM leasemq_refused WHERE job = :job) - :keep
