-- Delete what table leasemq_body has of these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
DELETE FROM leasemq_body WHERE job IN (SELECT value FROM json_each(:keys))
