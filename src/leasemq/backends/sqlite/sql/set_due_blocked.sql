-- Set when a blocked job is due; its place stays.
-- In: :due_ms, :key
-- Out: nothing
UPDATE leasemq_job SET due_ms = :due_ms WHERE key = :key
