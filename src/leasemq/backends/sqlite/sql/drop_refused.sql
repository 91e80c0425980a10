-- Delete what table leasemq_refused has of these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
DELETE FROM leasemq_refused WHERE job IN (SELECT value FROM json_each(:keys))
