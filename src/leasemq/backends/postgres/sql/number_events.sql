-- Give the events of a queue that can be seen by now, and have none yet, their numbers in its feed, in the order of
-- `seq`. One that is committed late gets a later number, so no reader passes it over.
-- In: p_queue, p_rows (so many rows at most)
-- Out: the number of the newest
CREATE FUNCTION {self}(p_queue integer, p_rows integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_numbered bigint;
    v_added bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.event WHERE queue = p_queue AND first IS NULL) THEN
        RETURN coalesce((SELECT numbered FROM {schema}.feed WHERE queue = p_queue), 0);
    END IF;
    INSERT INTO {schema}.feed (queue) VALUES (p_queue) ON CONFLICT (queue) DO NOTHING;
    SELECT numbered INTO STRICT v_numbered FROM {schema}.feed WHERE queue = p_queue FOR UPDATE;
    WITH next AS (
        SELECT o.seq, o.count FROM {schema}.event AS o WHERE o.queue = p_queue AND o.first IS NULL
        ORDER BY o.queue, o.seq LIMIT p_rows
    ), numbered AS (
        UPDATE {schema}.event AS e SET first = n.first
        FROM (
            SELECT x.seq, v_numbered + 1 + sum(x.count) OVER (ORDER BY x.seq) - x.count AS first FROM next AS x
        ) AS n
        WHERE e.queue = p_queue AND e.seq = n.seq RETURNING e.count
    )
    SELECT coalesce(sum(n.count), 0) INTO v_added FROM numbered AS n;
    UPDATE {schema}.feed SET numbered = v_numbered + v_added WHERE queue = p_queue;
    RETURN v_numbered + v_added;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
