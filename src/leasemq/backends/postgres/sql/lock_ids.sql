-- Lock the jobs of these ids wherever they are. An id that is given to another job meanwhile is looked up again.
-- In: p_queue, p_ids (each once)
-- Out: n (place in the ids, from 1), id, job, generation, state (as lock_jobs), flags, attempts, due_ms; of the
-- ids that have a record, in the order of the ids
CREATE FUNCTION {self}(p_queue integer, p_ids text[])
RETURNS TABLE (
    n bigint, id text, job bigint, generation integer, state smallint, flags smallint, attempts integer, due_ms bigint
) LANGUAGE plpgsql AS $$
DECLARE
    v_left text[] := p_ids;
    v_keys bigint[];
    v_locked bigint[] := '{}';
    v_states smallint[] := '{}';
    v_found bigint[];
    v_found_states smallint[];
BEGIN
    FOR v_pass IN 1..10 LOOP
        v_keys := ARRAY(
            SELECT j.key FROM unnest(v_left) AS u (id)
            CROSS JOIN LATERAL (
                SELECT k.key FROM {schema}.job AS k WHERE k.queue = p_queue AND k.id = u.id LIMIT 1
            ) AS j
            ORDER BY j.key
        );
        EXIT WHEN cardinality(v_keys) = 0;
        SELECT array_agg(l.job), array_agg(l.state) INTO v_found, v_found_states FROM {lock_jobs}(p_queue, v_keys) AS l;
        v_locked := v_locked || v_found;
        v_states := v_states || v_found_states;
        EXIT WHEN cardinality(v_found) = cardinality(v_keys) AND v_found IS NOT NULL;
        v_left := ARRAY(
            SELECT u.id FROM unnest(v_left) AS u (id)
            WHERE NOT EXISTS (
                SELECT FROM {schema}.job AS k WHERE k.queue = p_queue AND k.id = u.id AND k.key = ANY(v_locked)
            )
        );
    END LOOP;
    RETURN QUERY
    SELECT u.n, j.id, j.key, j.generation, l.state, s.flags, s.attempts, s.due_ms
    FROM unnest(p_ids) WITH ORDINALITY AS u (id, n)
    CROSS JOIN LATERAL (
        SELECT k.id, k.key, k.generation FROM {schema}.job AS k WHERE k.queue = p_queue AND k.id = u.id LIMIT 1
    ) AS j
    CROSS JOIN LATERAL (
        SELECT v_states[array_position(v_locked, j.key)] AS state
        WHERE j.key = ANY(v_locked)
    ) AS l
    LEFT JOIN LATERAL (
        SELECT w.flags, w.attempts, w.due_ms FROM {schema}.stand AS w WHERE w.job = j.key LIMIT 1
    ) AS s ON true
    ORDER BY u.n;
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
