-- Free a unique key, if this life of this job holds it.
-- In: :queue, :unique_key, :id, :generation
-- Out: nothing
DELETE FROM leasemq_hold
WHERE queue = :queue AND unique_key = :unique_key AND id = :id AND generation = :generation
