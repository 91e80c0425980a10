-- Find the newest generation that has a slip, for each of these ids that has any.
-- In: :queue, :ids (a JSON array)
-- Out: id, generation; in no order
SELECT s.id, max(s.generation)
FROM json_each(:ids) AS asked
CROSS JOIN leasemq_slip AS s ON s.queue = :queue AND s.id = asked.value
GROUP BY s.id
