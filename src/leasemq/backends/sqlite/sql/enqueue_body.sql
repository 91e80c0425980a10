-- Store what a job was asked to do.
-- In: :job, :task, :payload, :overrides, :headers, :max_stalls, :keep_result_ms, :keep_record_ms,
--   :keep_dead_ms, :born
-- Out: nothing
INSERT INTO leasemq_body (
    job, task, payload, overrides, headers, max_stalls, keep_result_ms, keep_record_ms, keep_dead_ms, born
) VALUES (
    :job, :task, :payload, :overrides, :headers, :max_stalls, :keep_result_ms, :keep_record_ms,
    :keep_dead_ms, :born
)
