-- Count a log line.
-- In: :job
-- Out: nothing
UPDATE leasemq_job SET log_count = log_count + 1 WHERE key = :job
