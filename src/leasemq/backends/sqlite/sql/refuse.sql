-- Note a stale write under the next number.
-- In: :job, :at_ms, :fence, :write
-- Out: nothing
INSERT INTO leasemq_refused (job, number, at_ms, fence, write)
SELECT :job, coalesce(max(number), 0) + 1, :at_ms, :fence, :write FROM leasemq_refused WHERE job = :job
