-- Remove what is past its retention: unique keys whose window is over, events, terminal records or their results,
-- records beyond the newest of each terminal state, and results without a record. Folds the counts.
-- In: p_now, p_channel, p_queue, p_limit, p_event_age_ms, p_newest, p_event_limit
-- Out: taken (records and results), has_more (counts to fold or events to forget)
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_limit integer, p_event_age_ms bigint, p_newest bigint,
    p_event_limit bigint
) RETURNS TABLE (taken bigint, has_more boolean) LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_now bigint := {now_ms}(p_now);
    v_lapsed bigint[];
    v_retired bigint[];
    v_beyond bigint[];
    r record;
BEGIN
    IF v_queue IS NULL THEN
        RETURN QUERY SELECT 0::bigint, false;
        RETURN;
    END IF;
    DELETE FROM {schema}.hold AS h USING (
        SELECT o.key FROM {schema}.hold AS o
        WHERE o.queue = v_queue AND o.until_ms IS NOT NULL AND o.until_ms <= v_now
        ORDER BY o.queue, o.until_ms LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) AS f
    WHERE h.queue = v_queue AND h.key = f.key;
    v_lapsed := {lock_ended}(ARRAY(
        SELECT e.job FROM {schema}.ended AS e WHERE e.queue = v_queue AND e.prune_ms <= v_now
        ORDER BY e.prune_ms, e.place LIMIT p_limit
    ), true);
    v_retired := ARRAY(
        SELECT u.key FROM unnest(v_lapsed) WITH ORDINALITY AS u (key, n)
        WHERE EXISTS (SELECT FROM {schema}.ended AS e WHERE e.job = u.key AND e.keep_until_ms <= v_now) ORDER BY u.n
    );
    taken := cardinality(v_lapsed);
    UPDATE {schema}.ended AS e SET result = NULL, prune_ms = e.keep_until_ms
    WHERE e.job = ANY(v_lapsed) AND e.keep_until_ms > v_now AND e.prune_ms <= v_now;
    PERFORM {drop_jobs}(v_queue, p_queue, v_retired, true, v_now);
    FOR r IN
        SELECT s.state, s.stored
        FROM (
            SELECT sum(t.cancelled) AS cancelled, sum(t.completed) AS completed, sum(t.expired) AS expired,
                sum(t.failed) AS failed
            FROM {schema}.tally AS t WHERE t.queue = v_queue
        ) AS c
        CROSS JOIN LATERAL (
            VALUES (1, 7, c.cancelled), (2, 5, c.completed), (3, 8, c.expired), (4, 6, c.failed)
        ) AS s (n, state, stored)
        WHERE s.stored > p_newest ORDER BY s.n
    LOOP
        v_beyond := {lock_ended}(ARRAY(
            SELECT e.job FROM {schema}.ended AS e WHERE e.queue = v_queue AND e.state = r.state
            ORDER BY e.queue, e.state, e.ended_ms, e.job LIMIT least(r.stored - p_newest, p_limit - taken)
        ), true);
        PERFORM {drop_jobs}(v_queue, p_queue, v_beyond, false, v_now);
        taken := taken + cardinality(v_beyond);
        v_retired := v_retired || v_beyond;
    END LOOP;
    taken := taken + {lapse_slips}(v_queue, v_now, p_limit, p_newest);
    has_more := {tidy}(p_now, p_queue, p_event_age_ms, p_event_limit);
    IF cardinality(v_retired) > 0 THEN
        PERFORM {push}(p_channel, p_queue, false, NULL, NULL, NULL, NULL);
    END IF;
    RETURN NEXT;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
