-- Keep the results of completed jobs whose record goes, as long as they are due to be kept.
-- In: p_queue, p_keys, p_now
-- Out: how many
CREATE FUNCTION {self}(p_queue integer, p_keys bigint[], p_now bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    WITH due AS (
        SELECT j.id, j.generation, e.result_until_ms, j.task, e.result
        FROM unnest(p_keys) WITH ORDINALITY AS u (key, n)
        CROSS JOIN LATERAL (
            SELECT o.result, o.result_until_ms FROM {schema}.ended AS o
            WHERE o.job = u.key AND o.state = 5 AND o.result IS NOT NULL AND o.result_until_ms > p_now LIMIT 1
        ) AS e
        CROSS JOIN LATERAL (
            SELECT k.id, k.generation, k.task FROM {schema}.job AS k WHERE k.queue = p_queue AND k.key = u.key LIMIT 1
        ) AS j
        ORDER BY u.n
    ), kept AS (
        INSERT INTO {schema}.slip AS s (queue, id, generation, until_ms, task, result)
        SELECT p_queue, d.id, d.generation, d.result_until_ms, d.task, d.result FROM due AS d
        ON CONFLICT (queue, id, generation) DO UPDATE SET
            taken = excluded.taken, until_ms = excluded.until_ms, task = excluded.task, result = excluded.result
        RETURNING xmax = 0 AS is_new  -- false: it took the place of another
    )
    SELECT count(*) FILTER (WHERE k.is_new) INTO v_count FROM kept AS k;
    RETURN v_count;
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
