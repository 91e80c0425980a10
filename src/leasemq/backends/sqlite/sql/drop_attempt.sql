-- Delete what table leasemq_attempt has of these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
DELETE FROM leasemq_attempt WHERE job IN (SELECT value FROM json_each(:keys))
