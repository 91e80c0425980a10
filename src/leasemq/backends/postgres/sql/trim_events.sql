-- Forget the events of a queue that are too old, or too many; of the oldest so many rows at most.
-- In: p_queue, p_until (what happened up to here is too old), p_event_limit (how many are kept), p_rows
-- Out: whether there may be more
CREATE FUNCTION {self}(p_queue integer, p_until bigint, p_event_limit bigint, p_rows integer)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_newest bigint;
    v_floor bigint;
    v_until bigint;
    v_gone bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.event WHERE queue = p_queue) THEN
        RETURN false;
    END IF;
    v_newest := {number_events}(p_queue, p_rows);
    SELECT f.floor INTO v_floor FROM {schema}.feed AS f WHERE f.queue = p_queue FOR UPDATE;
    WITH oldest AS MATERIALIZED (
        SELECT o.first, o.count, o.at_ms > p_until AS is_young FROM {schema}.event AS o
        WHERE o.queue = p_queue AND o.first IS NOT NULL ORDER BY o.queue, o.first LIMIT p_rows
    )
    SELECT greatest(
            v_floor, v_newest - p_event_limit,
            coalesce(min(o.first) FILTER (WHERE o.is_young), max(o.first + o.count)) - 1
        ),
        max(o.first + o.count) - 1
    INTO v_floor, v_until FROM oldest AS o;
    DELETE FROM {schema}.event AS e
    WHERE e.queue = p_queue AND e.first IS NOT NULL AND e.first <= least(v_floor, v_until)
    AND e.first + e.count - 1 <= v_floor;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    UPDATE {schema}.feed AS f SET floor = v_floor WHERE f.queue = p_queue AND f.floor < v_floor;
    RETURN v_gone >= p_rows OR (
        SELECT count(*) FROM (
            SELECT FROM {schema}.event AS e WHERE e.queue = p_queue AND e.first IS NULL
            ORDER BY e.queue, e.seq LIMIT p_rows
        ) AS f
    ) >= p_rows;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
