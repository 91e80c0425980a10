-- Read the open parents of these jobs.
-- In: :keys (a JSON array)
-- Out: job, queue, id, on_failure; in the order given
SELECT p.job, p.queue, p.id, p.on_failure
FROM json_each(:keys) AS asked
CROSS JOIN leasemq_parent AS p ON p.job = asked.value
ORDER BY p.job, p.number
