-- Keep a log line under the next number.
-- In: :job, :line
-- Out: nothing
INSERT INTO leasemq_log (job, number, line)
SELECT :job, coalesce(max(number), 0) + 1, :line FROM leasemq_log WHERE job = :job
