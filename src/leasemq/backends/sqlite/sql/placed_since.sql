-- Find which of these jobs were given a place after another.
-- In: :queue, :ids (a JSON array), :place
-- Out: id; in no order
SELECT j.id
FROM json_each(:ids) AS asked
CROSS JOIN leasemq_job AS j ON j.queue = :queue AND j.id = asked.value
WHERE j.place > :place
