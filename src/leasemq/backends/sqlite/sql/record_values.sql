-- Read the values of these jobs.
-- In: :keys (a JSON array)
-- Out: job, kind, value
SELECT v.job, v.kind, v.value
FROM json_each(:keys) AS asked
CROSS JOIN leasemq_value AS v ON v.job = asked.value
