-- Free the unique keys that these jobs hold: those that are due at their start, at their end all but throttled
-- ones, which are freed by their window only.
-- In: p_queue, p_keys (of jobs), p_at_end (false: they start)
-- Out: nothing
CREATE FUNCTION {self}(p_queue integer, p_keys bigint[], p_at_end boolean)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM {schema}.hold AS h
    USING unnest(p_keys) AS u (key)
    CROSS JOIN LATERAL (
        SELECT j.id, j.generation, j.unique_key FROM {schema}.job AS j
        WHERE j.queue = p_queue AND j.key = u.key AND j.unique_key IS NOT NULL
        AND j.unique_mode IS DISTINCT FROM 'throttle' AND (p_at_end OR j.unique_until = 'start') LIMIT 1
    ) AS f
    WHERE h.queue = p_queue AND h.key = f.unique_key AND h.id = f.id AND h.generation = f.generation;
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
