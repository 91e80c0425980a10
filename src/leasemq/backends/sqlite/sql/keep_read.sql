-- Read how long a job's record is kept, and its unique key.
-- In: :job
-- Out: keep_result_ms, keep_record_ms, keep_dead_ms, unique_key
SELECT keep_result_ms, keep_record_ms, keep_dead_ms, unique_key FROM leasemq_body WHERE job = :job
