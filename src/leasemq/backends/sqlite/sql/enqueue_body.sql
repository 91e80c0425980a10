-- Store what a job was asked to do.
-- In: :job, :task, :payload, :overrides, :headers, :max_stalls, :keep_result_ms, :keep_record_ms, :keep_dead_ms,
--   :ttl_ms, :unique_key, :unique_mode, :unique_until, :unique_window_ms, :creator_queue, :creator_id,
--   :creator_generation
-- Out: nothing
INSERT INTO leasemq_body (
    job, task, payload, overrides, headers, max_stalls, keep_result_ms, keep_record_ms, keep_dead_ms, ttl_ms,
    unique_key, unique_mode, unique_until, unique_window_ms, creator_queue, creator_id, creator_generation
) VALUES (
    :job, :task, :payload, :overrides, :headers, :max_stalls, :keep_result_ms, :keep_record_ms, :keep_dead_ms,
    :ttl_ms, :unique_key, :unique_mode, :unique_until, :unique_window_ms, :creator_queue, :creator_id,
    :creator_generation
)
