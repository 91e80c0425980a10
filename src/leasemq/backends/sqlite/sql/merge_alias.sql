-- Remember which job an id was merged into.
-- In: :queue, :id, :job
-- Out: nothing
INSERT INTO leasemq_alias (queue, id, job) VALUES (:queue, :id, :job)
ON CONFLICT (queue, id) DO UPDATE SET job = excluded.job
