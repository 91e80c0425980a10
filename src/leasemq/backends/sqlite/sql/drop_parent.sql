-- Delete what table leasemq_parent has of these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
DELETE FROM leasemq_parent WHERE job IN (SELECT value FROM json_each(:keys))
