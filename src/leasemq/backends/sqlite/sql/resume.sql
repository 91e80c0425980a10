-- Count a resumption, so that listeners in other processes see it.
-- In: :key
-- Out: nothing
UPDATE leasemq_queue SET resumes = resumes + 1 WHERE key = :key
