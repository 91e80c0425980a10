-- Read the workers whose announcement is good.
-- In: :namespace, :now_ms
-- Out: info
SELECT info FROM leasemq_worker WHERE namespace = :namespace AND until_ms > :now_ms
