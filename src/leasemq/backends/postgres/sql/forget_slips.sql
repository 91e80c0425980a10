-- Delete the results that were kept of every life of these ids.
-- In: p_queue, p_ids
-- Out: the ids that had any
CREATE FUNCTION {self}(p_queue integer, p_ids text[])
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    v_ids text[];
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.slip WHERE queue = p_queue AND id = ANY(p_ids) RETURNING id
    )
    SELECT array_agg(g.id) INTO v_ids FROM gone AS g;
    IF v_ids IS NOT NULL THEN
        INSERT INTO {schema}.tally (queue, slips) VALUES (p_queue, -cardinality(v_ids));
    END IF;
    RETURN v_ids;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
