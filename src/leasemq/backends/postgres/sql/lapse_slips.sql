-- Delete results without a record that are past their time, or beyond the newest; the first to lapse first.
-- In: p_queue, p_now, p_limit, p_newest
-- Out: how many
CREATE FUNCTION {self}(p_queue integer, p_now bigint, p_limit integer, p_newest bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_beyond bigint;
    v_count bigint;
BEGIN
    SELECT greatest(0, sum(t.slips) - p_newest) INTO v_beyond FROM {schema}.tally AS t WHERE t.queue = p_queue;
    WITH first AS MATERIALIZED (
        SELECT o.id, o.generation, o.until_ms, o.taken FROM {schema}.slip AS o WHERE o.queue = p_queue
        ORDER BY o.queue, o.until_ms, o.taken LIMIT p_limit
    ), chosen AS MATERIALIZED (
        SELECT f.id, f.generation
        FROM (SELECT x.*, row_number() OVER (ORDER BY x.until_ms, x.taken) AS n FROM first AS x) AS f
        WHERE f.until_ms <= p_now OR f.n <= v_beyond
    ), gone AS (
        DELETE FROM {schema}.slip AS s USING chosen AS c
        WHERE s.queue = p_queue AND s.id = c.id AND s.generation = c.generation RETURNING 1
    )
    SELECT count(*) INTO v_count FROM gone;
    IF v_count > 0 THEN
        INSERT INTO {schema}.tally (queue, slips) VALUES (p_queue, -v_count);
    END IF;
    RETURN v_count;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
