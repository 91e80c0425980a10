-- Take a life of a worker out of the list.
-- In: :namespace, :incarnation
-- Out: nothing
DELETE FROM leasemq_worker WHERE namespace = :namespace AND incarnation = :incarnation
