-- Read when a job was accepted.
-- In: :key
-- Out: created_ms
SELECT created_ms FROM leasemq_job WHERE key = :key
