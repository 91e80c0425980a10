-- Find the keys of these ids.
-- In: :queue, :ids (a JSON array)
-- Out: id, key; in no order
SELECT j.id, j.key
FROM json_each(:ids) AS asked
CROSS JOIN leasemq_job AS j INDEXED BY leasemq_job_id ON j.queue = :queue AND j.id = asked.value
