-- Say why an attempt ended as it did.
-- In: :reason, :key
-- Out: nothing
UPDATE leasemq_job SET reason = :reason WHERE key = :key
