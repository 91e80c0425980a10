-- Start a new run of jobs that failed, expired or were cancelled. Repeated with the same request it changes nothing.
-- In: p_now, p_channel, p_queue, p_ids (each once), p_request
-- Out: answers, in order: 10 done, 20 illegal, 40 conflict (each + the code of the state that was found),
-- 30 not_found; and of a conflict the id and the generation of the key's holder
CREATE FUNCTION {self}(p_now bigint, p_channel text, p_queue text, p_ids text[], p_request bigint)
RETURNS TABLE (answers smallint[], holder_ids text[], holder_lives integer[]) LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_count integer := cardinality(p_ids);
    v_now bigint;
    v_holder record;
    v_moved bigint[] := '{}';
    v_states smallint[] := '{}';
    r record;
BEGIN
    answers := array_fill(30::smallint, ARRAY[v_count]);
    holder_ids := array_fill(NULL::text, ARRAY[v_count]);
    holder_lives := array_fill(NULL::integer, ARRAY[v_count]);
    FOR r IN SELECT l.* FROM {lock_ids}(v_queue, p_ids) AS l WHERE v_queue IS NOT NULL LOOP
        v_now := coalesce(v_now, {now_ms}(p_now));  -- they are locked by now
        IF r.state = 0 THEN
            RAISE EXCEPTION 'nothing says where job % is', r.id USING ERRCODE = 'LM001';
        ELSIF EXISTS (SELECT FROM {schema}.extra AS x WHERE x.job = r.job AND x.replay_request = p_request) THEN
            answers[r.n] := 10 + r.state;
        ELSIF r.state NOT IN (6, 7, 8) THEN
            answers[r.n] := 20 + r.state;
        ELSE
            SELECT * INTO v_holder FROM {retake_key}(v_queue, r.job, v_now);
            holder_ids[r.n] := v_holder.id;
            holder_lives[r.n] := v_holder.generation;
            IF v_holder.id IS NOT NULL THEN
                answers[r.n] := 40 + r.state;
            ELSE
                answers[r.n] := 10 + r.state;
                v_states := v_states || {start_again}(v_queue, p_queue, r.job, p_request, v_now);
                v_moved := v_moved || r.job;
            END IF;
        END IF;
    END LOOP;
    IF cardinality(v_moved) > 0 THEN
        INSERT INTO {schema}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)
        SELECT v_queue, count(*), nextval('{schema}.event_seq'), v_now, array_agg(j.id ORDER BY u.n),
            array_agg(j.generation ORDER BY u.n), array_agg((170 + u.state)::smallint ORDER BY u.n), '{0}'
        FROM unnest(v_moved, v_states) WITH ORDINALITY AS u (key, state, n)
        CROSS JOIN LATERAL (
            SELECT k.id, k.generation FROM {schema}.job AS k WHERE k.queue = v_queue AND k.key = u.key LIMIT 1
        ) AS j;
        PERFORM {trace}(v_queue, v_moved, '{17}', NULL, v_now);
        PERFORM {push}(p_channel, p_queue, 2 = ANY(v_states), NULL, NULL, NULL, NULL);
    END IF;
    RETURN NEXT;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
