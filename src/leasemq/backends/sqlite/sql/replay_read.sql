-- Read what a replay is decided from.
-- In: :key
-- Out: replay_request, ttl_ms, unique_key, unique_mode, unique_until, unique_window_ms
SELECT j.replay_request, b.ttl_ms, b.unique_key, b.unique_mode, b.unique_until, b.unique_window_ms
FROM leasemq_job AS j
JOIN leasemq_body AS b ON b.job = j.key
WHERE j.key = :key
