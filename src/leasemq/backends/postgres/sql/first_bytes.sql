-- Answer the first of these jobs whose values together fit on a page, and one more; no more is read than is sent.
-- In: p_queue, p_keys, p_now, p_bytes
-- Out: keys, in the order given
CREATE FUNCTION {self}(p_queue integer, p_keys bigint[], p_now bigint, p_bytes bigint)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT f.key
        FROM (
            SELECT u.key, u.n, sum(b.size) OVER (ORDER BY u.n) - b.size AS before_bytes
            FROM unnest(p_keys) WITH ORDINALITY AS u (key, n)
            CROSS JOIN LATERAL (
                SELECT octet_length(j.payload)
                    + coalesce((
                        SELECT coalesce(octet_length(e.result), 0) FROM {schema}.ended AS e
                        WHERE e.job = u.key AND (e.result_until_ms IS NULL OR e.result_until_ms > p_now)
                    ), 0)
                    + coalesce((
                        SELECT coalesce(octet_length(x.progress), 0) + coalesce(octet_length(x.checkpoint), 0)
                        FROM {schema}.extra AS x WHERE x.job = u.key
                    ), 0)
                    + coalesce((
                        SELECT sum(octet_length(t.error)) FROM {schema}.attempt AS t WHERE t.job = u.key
                    ), 0)
                    + coalesce((SELECT sum(octet_length(l.line)) FROM {schema}.log AS l WHERE l.job = u.key), 0) AS size
                FROM {schema}.job AS j WHERE j.queue = p_queue AND j.key = u.key LIMIT 1
            ) AS b
        ) AS f
        WHERE f.before_bytes <= p_bytes ORDER BY f.n
    );
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
