-- Find who holds a unique key now.
-- In: :queue, :unique_key, :now_ms
-- Out: id, generation
SELECT id, generation
FROM leasemq_hold
WHERE queue = :queue AND unique_key = :unique_key AND (until_ms IS NULL OR until_ms > :now_ms)
