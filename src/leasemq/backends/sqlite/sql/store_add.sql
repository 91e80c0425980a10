-- Give a namespace its store id; one that has one keeps it.
-- In: :namespace, :store_id
-- Out: nothing
INSERT INTO leasemq_store (namespace, store_id) VALUES (:namespace, :store_id)
ON CONFLICT (namespace) DO NOTHING
