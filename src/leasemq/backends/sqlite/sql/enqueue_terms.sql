-- Store what few jobs were asked for beside that: ttl, unique key, creator.
-- In: :job, :ttl_ms, :unique_key, :unique_mode, :unique_until, :unique_window_ms, :creator_queue,
--   :creator_id,
--   :creator_generation
-- Out: nothing
UPDATE leasemq_body
SET
    ttl_ms = :ttl_ms,
    unique_key = :unique_key,
    unique_mode = :unique_mode,
    unique_until = :unique_until,
    unique_window_ms = :unique_window_ms,
    creator_queue = :creator_queue,
    creator_id = :creator_id,
    creator_generation = :creator_generation
WHERE job = :job
