-- Cancel jobs: those that have not started end at once; active ones are marked, durably.
-- In: p_now, p_channel, p_queue, p_ids (each once), p_generation (null: whichever it is)
-- Out: answers, in order: 1 cancelled, 2 cancelling, 3 finished, 4 not_found
CREATE FUNCTION {self}(p_now bigint, p_channel text, p_queue text, p_ids text[], p_generation integer)
RETURNS smallint[] LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_now bigint;
    v_answers smallint[] := array_fill(4::smallint, ARRAY[cardinality(p_ids)]);
    v_ending bigint[] := '{}';
    v_marking bigint[] := '{}';
    v_marked_ids text[] := '{}';
    v_marked_lives integer[] := '{}';
    r record;
BEGIN
    IF v_queue IS NULL THEN
        RETURN v_answers;
    END IF;
    FOR r IN SELECT l.* FROM {lock_ids}(v_queue, p_ids) AS l LOOP
        v_now := coalesce(v_now, {now_ms}(p_now));  -- they are locked by now
        CONTINUE WHEN r.generation <> p_generation;
        v_answers[r.n] := CASE WHEN r.state IN (1, 2, 4) THEN 1 WHEN r.state = 3 THEN 2 ELSE 3 END;
        IF r.state = 0 THEN
            RAISE EXCEPTION 'nothing says where job % is', r.id USING ERRCODE = 'LM001';
        ELSIF r.state IN (1, 2, 4) THEN
            PERFORM {request_cancels}(v_queue, v_marking, v_now);  -- events are told in the order asked for
            v_marking := '{}';
            v_ending := v_ending || r.job;
        ELSIF r.state = 3 THEN
            PERFORM {end_jobs}(v_queue, p_queue, v_ending, 7::smallint, NULL, v_now, p_channel);
            v_ending := '{}';
            v_marking := v_marking || r.job;
            v_marked_ids := v_marked_ids || r.id;
            v_marked_lives := v_marked_lives || r.generation;
        END IF;
    END LOOP;
    PERFORM {request_cancels}(v_queue, v_marking, v_now);
    PERFORM {end_jobs}(v_queue, p_queue, v_ending, 7::smallint, NULL, v_now, p_channel);
    IF cardinality(v_marked_ids) > 0 THEN
        PERFORM {push}(p_channel, p_queue, false, v_marked_ids, v_marked_lives, NULL, NULL);
    END IF;
    RETURN v_answers;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
