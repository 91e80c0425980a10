-- Answer the results of these lives of ids that outlived their record; generation 0 is the newest that is kept.
-- In: p_now, p_queue, p_ids, p_generations
-- Out: n (place in the ids, from 1), id, generation, task, result, until_ms
CREATE FUNCTION {self}(p_now bigint, p_queue text, p_ids text[], p_generations integer[])
RETURNS TABLE (n bigint, id text, generation integer, task text, result bytea, until_ms bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_now bigint := {now_ms}(p_now);
BEGIN
    RETURN QUERY
    SELECT u.n, s.id, s.generation, s.task, s.result, s.until_ms
    FROM unnest(p_ids, p_generations) WITH ORDINALITY AS u (id, generation, n)
    CROSS JOIN LATERAL (
        SELECT o.* FROM {schema}.slip AS o
        WHERE o.queue = v_queue AND o.id = u.id AND o.until_ms > v_now
        AND (u.generation = 0 OR o.generation = u.generation)
        ORDER BY o.queue DESC, o.id DESC, o.generation DESC LIMIT 1
    ) AS s;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
