-- Delete what table leasemq_job has of these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
DELETE FROM leasemq_job WHERE key IN (SELECT value FROM json_each(:keys))
