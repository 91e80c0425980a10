-- Move jobs that have not started to waiting, scheduled or blocked, in the order given, with new places in the
-- queue's order. Those that are gone or have started are passed over. Locks the jobs.
-- In: p_queue, p_keys, p_states (codes; one for all, or one each), p_dues (as p_states; null: as they are),
-- p_kind (code of EventKind), p_now
-- Out: how many were moved
CREATE FUNCTION {self}(
    p_queue integer, p_keys bigint[], p_states smallint[], p_dues bigint[], p_kind smallint, p_now bigint
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_count integer;
    v record;
BEGIN
    PERFORM {lock_jobs}(p_queue, p_keys);
    SELECT
        array_agg(f.key ORDER BY f.n) AS keys, array_agg(f.to_state ORDER BY f.n) AS states,
        array_agg(f.due ORDER BY f.n) AS dues, array_agg(f.expires_ms ORDER BY f.n) AS expiries,
        array_agg(f.suspect ORDER BY f.n) AS suspects, array_agg(f.flags ORDER BY f.n) AS flags,
        array_agg(f.attempts ORDER BY f.n) AS attempts, array_agg(f.failures ORDER BY f.n) AS failures,
        array_agg(f.stalls ORDER BY f.n) AS stalls, array_agg(f.fence ORDER BY f.n) AS fences,
        array_agg(f.priority ORDER BY f.n) AS priorities, array_agg(f.id ORDER BY f.n) AS ids,
        array_agg(f.generation ORDER BY f.n) AS lives,
        array_agg((p_kind * 10 + f.to_state)::smallint ORDER BY f.n) AS whats,
        count(*) FILTER (WHERE f.to_state = 2) - count(*) FILTER (WHERE f.state = 2) AS waiting,
        count(*) FILTER (WHERE f.to_state = 1) - count(*) FILTER (WHERE f.state = 1) AS scheduled,
        count(*) FILTER (WHERE f.to_state = 4) - count(*) FILTER (WHERE f.state = 4) AS blocked
    INTO v
    FROM (
        SELECT u.key, u.n, s.*, j.priority, j.id, j.generation,
            coalesce(p_states[u.n], p_states[1]) AS to_state,
            coalesce(p_dues[u.n], p_dues[1], s.due_ms) AS due
        FROM unnest(p_keys) WITH ORDINALITY AS u (key, n)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.stand WHERE job = u.key AND state IN (1, 2, 4) LIMIT 1
        ) AS s
        CROSS JOIN LATERAL (
            SELECT priority, id, generation FROM {schema}.job WHERE queue = p_queue AND key = u.key LIMIT 1
        ) AS j
    ) AS f;
    IF v.keys IS NULL THEN
        RETURN 0;
    END IF;
    v_count := cardinality(v.keys);
    DELETE FROM {schema}.scheduled WHERE job = ANY(v.keys);
    DELETE FROM {schema}.ready WHERE job = ANY(v.keys);
    INSERT INTO {schema}.ready (
        job, place, queue, rank, suspect, flags, attempts, failures, stalls, fence, since_ms, due_ms, expires_ms
    )
    SELECT u.key, nextval('{schema}.place'), p_queue, -u.priority, u.suspect, u.flags, u.attempts, u.failures,
        u.stalls, u.fence, p_now, u.due, u.expires
    FROM unnest(
        v.keys, v.states, v.dues, v.expiries, v.suspects, v.flags, v.attempts, v.failures, v.stalls, v.fences,
        v.priorities
    ) AS u (key, state, due, expires, suspect, flags, attempts, failures, stalls, fence, priority)
    WHERE u.state = 2;
    INSERT INTO {schema}.scheduled (
        job, place, queue, blocked, suspect, flags, attempts, failures, stalls, fence, due_ms, expires_ms
    )
    SELECT u.key, nextval('{schema}.place'), p_queue, u.state = 4, u.suspect, u.flags, u.attempts, u.failures,
        u.stalls, u.fence, u.due, u.expires
    FROM unnest(
        v.keys, v.states, v.dues, v.expiries, v.suspects, v.flags, v.attempts, v.failures, v.stalls, v.fences
    ) AS u (key, state, due, expires, suspect, flags, attempts, failures, stalls, fence)
    WHERE u.state <> 2;
    INSERT INTO {schema}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)
    VALUES (p_queue, v_count, nextval('{schema}.event_seq'), p_now, v.ids, v.lives, v.whats, v.attempts);
    INSERT INTO {schema}.tally (queue, waiting, scheduled, blocked)
    VALUES (p_queue, v.waiting, v.scheduled, v.blocked);
    PERFORM {trace}(p_queue, v.keys, ARRAY[p_kind], NULL, p_now);
    RETURN v_count;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
