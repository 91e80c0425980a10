-- Answer events of a queue after a cursor, oldest first. Those that are read first are given their numbers here.
-- A repeat changes nothing.
-- In: p_queue, p_after (a number; null: see p_way), p_born_seq, p_born_index (else which job's first event to begin
-- with), p_way (0: after the cursor, 1: from the earliest kept, 2: only how far they go),
-- p_limit, p_event_limit (how many are kept)
-- Out: one row of trimmed (the number of the newest that is no longer kept), newest, after (null: what was to be
-- begun with is not kept); then one per step with events: the number of the first, and as in the table
CREATE FUNCTION {self}(
    p_queue text, p_after bigint, p_born_seq bigint, p_born_index integer, p_way integer, p_limit integer,
    p_event_limit bigint
) RETURNS TABLE (
    first bigint, at_ms bigint, ids text[], lives integer[], whats smallint[], attempts integer[], trimmed bigint,
    newest bigint, after bigint
) LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_before bigint;
BEGIN
    newest := {number_events}(v_queue, 10000);
    WHILE p_way = 2 AND v_before IS DISTINCT FROM newest LOOP
        v_before := newest;
        newest := {number_events}(v_queue, 10000);
    END LOOP;
    trimmed := greatest(0, newest - p_event_limit, (SELECT f.floor FROM {schema}.feed AS f WHERE f.queue = v_queue));
    after := CASE p_way WHEN 2 THEN newest WHEN 1 THEN trimmed ELSE p_after END;
    IF p_born_seq IS NOT NULL THEN
        -- Its step drew another number later, when it waited for nobody any more: mostly the next.
        SELECT e.first + p_born_index - 1 INTO after
        FROM (
            SELECT * FROM {schema}.event AS o WHERE o.queue = v_queue AND o.seq > p_born_seq
            ORDER BY o.queue, o.seq LIMIT 10000
        ) AS e
        WHERE e.born = p_born_seq;
    END IF;
    RETURN NEXT;
    RETURN QUERY
    SELECT e.first, e.at_ms, e.ids, e.lives, e.whats, e.attempts, NULL::bigint, NULL::bigint, NULL::bigint
    FROM (
        -- The row that `after` lies in, then those that begin behind it: numbers have no gaps.
        (SELECT * FROM {schema}.event AS o
        WHERE o.queue = v_queue AND o.first <= after AND o.first IS NOT NULL
        ORDER BY o.queue DESC, o.first DESC LIMIT 1)
        UNION ALL
        (SELECT * FROM {schema}.event AS o
        WHERE o.queue = v_queue AND o.first > after AND o.first <= after + p_limit AND o.first IS NOT NULL
        ORDER BY o.queue, o.first)
    ) AS e
    WHERE e.first + e.count > after + 1 AND p_limit > 0 AND after BETWEEN trimmed AND newest
    ORDER BY e.first;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
