-- Find ended jobs whose result, not yet their record, is past its retention.
-- In: :queue, :now_ms, :limit
-- Out: key, in a JSON array
SELECT json_group_array(key)
FROM (
    SELECT key
    FROM leasemq_job INDEXED BY leasemq_job_prune
    WHERE queue = :queue AND prune_ms IS NOT NULL AND prune_ms <= :now_ms AND prune_ms < keep_until_ms
    ORDER BY prune_ms
    LIMIT :limit
)
