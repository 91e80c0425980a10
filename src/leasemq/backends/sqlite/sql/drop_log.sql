-- Delete what table leasemq_log has of these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
DELETE FROM leasemq_log WHERE job IN (SELECT value FROM json_each(:keys))
