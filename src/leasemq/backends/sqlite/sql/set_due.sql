-- Set when a job is due, and move it to its new place.
-- In: :state, :due_ms, :place, :now_ms, :key
-- Out: nothing
UPDATE leasemq_job SET state = :state, due_ms = :due_ms, place = :place, since_ms = :now_ms WHERE key = :key
