-- Delete what table leasemq_value has of these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
DELETE FROM leasemq_value WHERE job IN (SELECT value FROM json_each(:keys))
