-- Store a job.
-- In: :key, :queue, :id, :generation, :state, :priority, :place, :now_ms, :due_ms, :expires_ms, :fence,
--   :frees_key,
--   :request, :trail
-- Out: nothing
INSERT INTO leasemq_job (
    key, queue, id, generation, state, priority, place, since_ms, created_ms, due_ms, expires_ms, fence,
    frees_key,
    request, trail
) VALUES (
    :key, :queue, :id, :generation, :state, :priority, :place, :now_ms, :now_ms, :due_ms, :expires_ms,
    :fence,
    :frees_key, :request, :trail
)
