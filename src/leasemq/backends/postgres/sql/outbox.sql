-- Answer follow-ups of a queue, oldest first.
-- In: p_queue, p_limit
-- Out: id, kind, child, parent (null: none), on_failure, outcome (code; null: it is unknown), job (packed)
CREATE FUNCTION {self}(p_queue text, p_limit integer)
RETURNS TABLE (
    id bigint, kind text, child_queue text, child_id text, child_generation integer, parent_queue text,
    parent_id text, parent_generation integer, on_failure text, outcome smallint, job bytea
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
BEGIN
    RETURN QUERY
    SELECT o.id, o.kind, o.child_queue, o.child_id, o.child_generation, o.parent_queue, o.parent_id,
        o.parent_generation, o.on_failure, o.outcome, o.job
    FROM {schema}.outbox AS o WHERE o.queue = v_queue ORDER BY o.queue, o.id LIMIT p_limit;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
