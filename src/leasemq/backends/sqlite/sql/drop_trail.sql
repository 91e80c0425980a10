-- Delete what table leasemq_trail has of these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
DELETE FROM leasemq_trail WHERE job IN (SELECT value FROM json_each(:keys))
