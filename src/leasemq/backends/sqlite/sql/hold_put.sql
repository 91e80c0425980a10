-- Give a unique key to a job, in the place of a hold that has lapsed.
-- In: :queue, :unique_key, :id, :generation, :until_ms
-- Out: nothing
INSERT INTO leasemq_hold (queue, unique_key, id, generation, until_ms)
VALUES (:queue, :unique_key, :id, :generation, :until_ms)
ON CONFLICT (queue, unique_key) DO UPDATE
SET id = excluded.id, generation = excluded.generation, until_ms = excluded.until_ms
