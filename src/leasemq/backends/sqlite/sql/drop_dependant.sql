-- Delete what table leasemq_dependant has of these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
DELETE FROM leasemq_dependant WHERE job IN (SELECT value FROM json_each(:keys))
