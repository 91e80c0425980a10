-- Forget the workers whose announcement has lapsed.
-- In: :namespace, :now_ms
-- Out: nothing
DELETE FROM leasemq_worker WHERE namespace = :namespace AND until_ms <= :now_ms
