-- Delete the results of these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
DELETE FROM leasemq_value WHERE kind = 'result' AND job IN (SELECT value FROM json_each(:keys))
