-- Keep the number of the last note of a job's newest attempt: a repeat is known by it.
-- In: :number, :key
-- Out: nothing
UPDATE leasemq_job SET noted = :number WHERE key = :key
