-- Find the job of this id, and the one that the id was merged into.
-- In: :queue, :id
-- Out: its own key, and the other's key, id and generation; null where there is none
SELECT own.key, other.key, other.id, other.generation
FROM (SELECT :queue AS queue, :id AS id) AS asked
LEFT JOIN leasemq_job AS own ON own.queue = asked.queue AND own.id = asked.id
LEFT JOIN leasemq_alias AS a ON a.queue = asked.queue AND a.id = asked.id
LEFT JOIN leasemq_job AS other ON other.key = a.job
