-- Forget all but the newest log lines.
-- In: :job, :keep
-- Out: nothing
DELETE FROM leasemq_log
WHERE job = :job AND number <= (SELECT max(number) FROM leasemq_log WHERE job = :job) - :keep
