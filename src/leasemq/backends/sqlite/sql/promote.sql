-- Make a scheduled job waiting.
-- In: :place, :now_ms, :key
-- Out: nothing
UPDATE leasemq_job SET state = 'waiting', place = :place, since_ms = :now_ms WHERE key = :key
