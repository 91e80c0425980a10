-- Forget the holds whose window is over.
-- In: :queue, :now_ms
-- Out: nothing
DELETE FROM leasemq_hold WHERE queue = :queue AND until_ms IS NOT NULL AND until_ms <= :now_ms
