-- Mark an active job: from now on its only outcome is cancelled.
-- In: :key
-- Out: nothing
UPDATE leasemq_job SET cancel_requested = 1 WHERE key = :key
