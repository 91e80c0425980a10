-- Delete the slips of every life of an id.
-- In: :queue, :id
-- Out: nothing
DELETE FROM leasemq_slip WHERE queue = :queue AND id = :id
