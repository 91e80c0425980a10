-- Read the log lines of these jobs.
-- In: :keys (a JSON array)
-- Out: job, line; oldest first
SELECT l.job, l.line
FROM json_each(:keys) AS asked
CROSS JOIN leasemq_log AS l ON l.job = asked.value
ORDER BY l.job, l.number
