-- Count a stale write.
-- In: :job
-- Out: nothing
UPDATE leasemq_job SET refused_count = refused_count + 1 WHERE key = :job
