-- Forget the events up to a number.
-- In: :queue, :last_number
-- Out: nothing
DELETE FROM leasemq_event WHERE queue = :queue AND last_number <= :last_number
