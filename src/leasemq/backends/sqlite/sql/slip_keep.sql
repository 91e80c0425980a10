-- Keep the results of completed jobs whose record goes, as long as they are due to be kept.
-- In: :keys (a JSON array), :now_ms
-- Out: nothing
INSERT OR REPLACE INTO leasemq_slip (queue, id, generation, task, result, until_ms)
SELECT j.queue, j.id, j.generation, b.task, j.result, j.result_until_ms
FROM json_each(:keys) AS asked
CROSS JOIN leasemq_job AS j ON j.key = asked.value
CROSS JOIN leasemq_body AS b ON b.job = j.key
WHERE
    j.state = 'completed' AND j.result IS NOT NULL
    AND typeof(j.result_until_ms) = 'integer' AND j.result_until_ms > :now_ms
