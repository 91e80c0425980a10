-- Delete the slips of every life of these ids.
-- In: :queue, :ids (a JSON array)
-- Out: nothing
DELETE FROM leasemq_slip WHERE queue = :queue AND id IN (SELECT value FROM json_each(:ids))
