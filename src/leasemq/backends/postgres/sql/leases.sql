-- Answer the leases of active jobs, in the order in which they were claimed.
-- In: p_queue, p_keys
-- Out: one row per lease
CREATE FUNCTION {self}(p_queue integer, p_keys bigint[])
RETURNS TABLE (
    id text, generation integer, fence bigint, nonce text, task text, payload bytea, attempts integer,
    failures integer, stalls integer, max_stalls integer, keep_result_ms bigint, keep_record_ms bigint,
    keep_dead_ms bigint, created_ms bigint, lease_until_ms bigint, incarnation text, suspect boolean,
    cancel_requested boolean, checkpoint bytea, overrides bytea, headers bytea
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT j.id, j.generation, a.fence, a.nonce, j.task, j.payload, a.attempts, a.failures, a.stalls,
        j.max_stalls, j.keep_result_ms, j.keep_record_ms, j.keep_dead_ms, j.created_ms, a.lease_until_ms,
        a.incarnation, a.suspect, a.cancel_requested,
        (SELECT e.checkpoint FROM {schema}.extra AS e WHERE e.job = a.job), j.overrides, j.headers
    FROM {schema}.active AS a
    CROSS JOIN LATERAL (SELECT * FROM {schema}.job AS f WHERE f.queue = p_queue AND f.key = a.job LIMIT 1) AS j
    WHERE a.job = ANY(p_keys) AND a.queue = p_queue
    ORDER BY a.place;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
