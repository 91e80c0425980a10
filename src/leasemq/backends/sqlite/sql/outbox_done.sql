-- Forget follow-ups that were carried out.
-- In: :queue, :ids (a JSON array)
-- Out: nothing
DELETE FROM leasemq_outbox WHERE queue = :queue AND id IN (SELECT value FROM json_each(:ids))
