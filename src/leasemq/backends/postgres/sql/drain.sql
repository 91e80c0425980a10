-- Delete jobs that have not started: blocked ones first, then scheduled ones by due time, then waiting ones in the
-- order of claims. Chosen first, then locked in the order of their keys; who has started meanwhile stays.
-- In: p_now, p_channel, p_queue, p_limit, p_states (codes)
-- Out: how many
CREATE FUNCTION {self}(p_now bigint, p_channel text, p_queue text, p_limit integer, p_states smallint[])
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_keys bigint[] := '{}';
BEGIN
    IF 4 = ANY(p_states) THEN
        v_keys := ARRAY(
            SELECT s.job FROM {schema}.scheduled AS s WHERE s.queue = v_queue AND s.blocked
            ORDER BY s.job LIMIT p_limit
        );
    END IF;
    IF 1 = ANY(p_states) THEN
        v_keys := v_keys || ARRAY(
            SELECT s.job FROM {schema}.scheduled AS s WHERE s.queue = v_queue AND NOT s.blocked
            ORDER BY s.due_ms, s.place LIMIT p_limit - cardinality(v_keys)
        );
    END IF;
    IF 2 = ANY(p_states) THEN
        v_keys := v_keys || ARRAY(
            SELECT r.job FROM {schema}.ready AS r WHERE r.queue = v_queue
            ORDER BY r.queue, r.suspect, r.rank, r.place LIMIT p_limit - cardinality(v_keys)
        );
    END IF;
    v_keys := ARRAY(
        SELECT u.key FROM unnest(v_keys) WITH ORDINALITY AS u (key, n)
        CROSS JOIN LATERAL {lock_jobs}(v_queue, v_keys) AS l
        WHERE l.job = u.key AND l.state = ANY(p_states) AND l.state IN (1, 2, 4)
        ORDER BY u.n
    );
    PERFORM {drop_for_good}(p_channel, v_queue, p_queue, v_keys, {now_ms}(p_now));
    RETURN cardinality(v_keys);
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
