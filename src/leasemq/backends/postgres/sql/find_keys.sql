-- Choose jobs that match, by acceptance: in states that few jobs are in from where those are, else by walking the
-- queue, a bounded way at a time.
-- In: p_queue, p_now, p_past (begin behind this key; null: at the end), p_oldest_first, p_states (codes; null: any),
-- p_task, p_prefix (of the id), p_reason, p_newer_ms (age at most), p_older_ms (at least), p_count (so many at most)
-- Out: keys in the order asked for, the last key looked at, whether that was all
CREATE FUNCTION {self}(
    p_queue integer, p_now bigint, p_past bigint, p_oldest_first boolean, p_states smallint[], p_task text,
    p_prefix text, p_reason text, p_newer_ms bigint, p_older_ms bigint, p_count integer
) RETURNS TABLE (keys bigint[], walked bigint, is_end boolean) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_part CONSTANT integer := 1000;
    v_few bigint[];
    v_part_keys bigint[];
    v_looked_at integer;
    v_seen integer := 0;
BEGIN
    keys := '{}';
    is_end := false;
    walked := coalesce(p_past, CASE WHEN p_oldest_first THEN 0 ELSE 9223372036854775807 END);
    IF p_states IS NOT NULL THEN
        v_few := {few_keys}(p_queue, p_states, 10000);
    END IF;
    LOOP
        IF v_few IS NOT NULL AND p_oldest_first THEN
            v_part_keys := ARRAY(
                SELECT u.key FROM unnest(v_few) AS u (key) WHERE u.key > walked ORDER BY u.key LIMIT v_part
            );
            v_looked_at := cardinality(v_part_keys);
            walked := coalesce(v_part_keys[v_looked_at], walked);
        ELSIF v_few IS NOT NULL THEN
            v_part_keys := ARRAY(
                SELECT u.key FROM unnest(v_few) AS u (key) WHERE u.key < walked ORDER BY u.key DESC LIMIT v_part
            );
            v_looked_at := cardinality(v_part_keys);
            walked := coalesce(v_part_keys[v_looked_at], walked);
        ELSIF p_oldest_first THEN
            SELECT count(*), coalesce(max(f.key), walked), array_agg(f.key ORDER BY f.key) FILTER (
                WHERE (p_task IS NULL OR f.task = p_task) AND (p_prefix IS NULL OR starts_with(f.id, p_prefix))
            ) INTO v_looked_at, walked, v_part_keys
            FROM (
                SELECT j.key, j.id, j.task FROM {schema}.job AS j WHERE j.queue = p_queue AND j.key > walked
                ORDER BY j.queue, j.key LIMIT v_part
            ) AS f;
        ELSE
            SELECT count(*), coalesce(min(f.key), walked), array_agg(f.key ORDER BY f.key DESC) FILTER (
                WHERE (p_task IS NULL OR f.task = p_task) AND (p_prefix IS NULL OR starts_with(f.id, p_prefix))
            ) INTO v_looked_at, walked, v_part_keys
            FROM (
                SELECT j.key, j.id, j.task FROM {schema}.job AS j WHERE j.queue = p_queue AND j.key < walked
                ORDER BY j.queue DESC, j.key DESC LIMIT v_part
            ) AS f;
        END IF;
        IF cardinality(v_part_keys) > 0 THEN
            keys := keys || ARRAY(
                SELECT u.key
                FROM unnest(v_part_keys) WITH ORDINALITY AS u (key, n)
                CROSS JOIN LATERAL (
                    SELECT k.id, k.task, k.created_ms FROM {schema}.job AS k
                    WHERE k.queue = p_queue AND k.key = u.key LIMIT 1
                ) AS j
                WHERE (p_task IS NULL OR j.task = p_task)
                AND (p_prefix IS NULL OR starts_with(j.id, p_prefix))
                AND (p_states IS NULL OR EXISTS (
                    SELECT FROM {schema}.stand AS s WHERE s.job = u.key AND s.state = ANY(p_states)
                ))
                AND (p_reason IS NULL OR p_reason = coalesce(
                    (SELECT e.reason FROM {schema}.ended AS e WHERE e.job = u.key),
                    (SELECT x.reason FROM {schema}.extra AS x WHERE x.job = u.key
                    AND NOT EXISTS (SELECT FROM {schema}.ended AS e WHERE e.job = u.key))
                ))
                AND ((p_newer_ms IS NULL AND p_older_ms IS NULL) OR (
                    p_now - coalesce((SELECT e.ended_ms FROM {schema}.ended AS e WHERE e.job = u.key), j.created_ms)
                    BETWEEN coalesce(p_older_ms, -9007199254740992) AND coalesce(p_newer_ms, 9007199254740992)
                ))
                ORDER BY u.n LIMIT p_count - cardinality(keys)
            );
        END IF;
        is_end := v_looked_at < v_part;
        v_seen := v_seen + v_part;
        EXIT WHEN is_end OR cardinality(keys) >= p_count OR v_seen >= 50 * v_part;
    END LOOP;
    RETURN NEXT;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
