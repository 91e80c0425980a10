-- Expire up to `p_limit` jobs that were not started within their ttl, the longest past it first.
-- In: p_queue, p_name, p_limit, p_now, p_channel
-- Out: how many
CREATE FUNCTION {self}(p_queue integer, p_name text, p_limit integer, p_now bigint, p_channel text)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_keys bigint[];
BEGIN
    IF p_limit <= 0 THEN
        RETURN 0;
    END IF;
    SELECT array_agg(f.job ORDER BY f.expires_ms, f.job) INTO v_keys
    FROM (
        SELECT a.job, a.expires_ms FROM (
            SELECT r.* FROM (
                SELECT job, expires_ms FROM {schema}.ready
                WHERE queue = p_queue AND expires_ms <= p_now AND expires_ms IS NOT NULL
                ORDER BY expires_ms, job LIMIT p_limit FOR UPDATE SKIP LOCKED
            ) AS r
            UNION ALL
            SELECT s.* FROM (
                SELECT job, expires_ms FROM {schema}.scheduled
                WHERE queue = p_queue AND expires_ms <= p_now AND expires_ms IS NOT NULL
                ORDER BY expires_ms, job LIMIT p_limit FOR UPDATE SKIP LOCKED
            ) AS s
        ) AS a
        ORDER BY a.expires_ms, a.job LIMIT p_limit
    ) AS f;
    IF v_keys IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM {end_jobs}(p_queue, p_name, v_keys, 8::smallint, NULL, p_now, p_channel);
    RETURN cardinality(v_keys);
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
