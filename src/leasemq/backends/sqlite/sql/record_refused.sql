-- Read the stale writes noted on these jobs.
-- In: :keys (a JSON array)
-- Out: job, at_ms, fence, write, number; oldest first
SELECT r.job, r.at_ms, r.fence, r.write, r.number
FROM json_each(:keys) AS asked
CROSS JOIN leasemq_refused AS r ON r.job = asked.value
ORDER BY r.job, r.number
