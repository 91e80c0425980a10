-- Show a life of a worker until an instant.
-- In: :namespace, :incarnation, :until_ms, :info
-- Out: nothing
INSERT INTO leasemq_worker (namespace, incarnation, until_ms, info)
VALUES (:namespace, :incarnation, :until_ms, :info)
ON CONFLICT (namespace, incarnation) DO UPDATE SET until_ms = excluded.until_ms, info = excluded.info
