-- Read a namespace's store id.
-- In: :namespace
-- Out: store_id
SELECT store_id FROM leasemq_store WHERE namespace = :namespace
