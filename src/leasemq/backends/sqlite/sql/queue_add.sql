-- Register a queue; one that is known stays as it is.
-- In: :namespace, :name
-- Out: nothing
INSERT INTO leasemq_queue (namespace, name) VALUES (:namespace, :name)
ON CONFLICT (namespace, name) DO NOTHING
