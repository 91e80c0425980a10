-- Delete jobs and all that is stored under their ids. A record that cannot be read goes too.
-- In: p_now, p_channel, p_queue, p_ids (each once), p_force (running ones too), p_states (codes)
-- Out: as promote.sql; done without a state: it could not be read
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_ids text[], p_force boolean, p_states smallint[]
) RETURNS smallint[] LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_now bigint;
    v_answers smallint[] := array_fill(30::smallint, ARRAY[cardinality(p_ids)]);
    v_jobs bigint[] := '{}';
    v_forgotten text[];
    r record;
BEGIN
    IF v_queue IS NULL THEN
        RETURN v_answers;
    END IF;
    FOR r IN SELECT l.* FROM {lock_ids}(v_queue, p_ids) AS l LOOP
        IF r.state = 0 OR (r.state = ANY(p_states) AND (r.state <> 3 OR p_force)) THEN
            v_answers[r.n] := 10 + r.state;
            v_jobs := v_jobs || r.job;
        ELSE
            v_answers[r.n] := 20 + r.state;
        END IF;
    END LOOP;
    v_now := {now_ms}(p_now);
    IF cardinality(v_jobs) > 0 THEN
        PERFORM {drop_jobs}(v_queue, p_queue, v_jobs, false, v_now);
        PERFORM {push}(p_channel, p_queue, false, NULL, NULL, NULL, NULL);
    END IF;
    v_forgotten := {forget_slips}(v_queue, ARRAY(
        SELECT u.id FROM unnest(p_ids, v_answers) AS u (id, answer)
        WHERE u.answer < 20 OR (u.answer = 30 AND 5 = ANY(p_states))
    ));
    FOR i IN 1..cardinality(p_ids) LOOP  -- of an id without a record, results that outlived theirs
        IF v_answers[i] = 30 AND p_ids[i] = ANY(v_forgotten) THEN
            v_answers[i] := 15;
        END IF;
    END LOOP;
    RETURN v_answers;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
