-- Delete what table leasemq_alias has of these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
DELETE FROM leasemq_alias WHERE job IN (SELECT value FROM json_each(:keys))
