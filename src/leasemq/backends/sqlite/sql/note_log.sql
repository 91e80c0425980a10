-- Keep a log line under the next number.
-- In: :job, :line
-- Out: nothing
INSERT INTO leasemq_log (job, number, line)
SELECT :job, log_count + 1, :line FROM leasemq_job WHERE key = :job
