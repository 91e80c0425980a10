-- Note a stale write under the next number.
-- In: :job, :at_ms, :fence, :write
-- Out: nothing
INSERT INTO leasemq_refused (job, number, at_ms, fence, write)
SELECT :job, refused_count + 1, :at_ms, :fence, :write FROM leasemq_job WHERE key = :job
