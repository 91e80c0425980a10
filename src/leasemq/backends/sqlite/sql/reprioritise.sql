-- Change a job's priority; its place within it stays.
-- In: :priority, :key
-- Out: nothing
UPDATE leasemq_job SET priority = :priority WHERE key = :key
