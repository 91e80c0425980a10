-- Make jobs in some states due at another time; one that waits already and is to be due now keeps its place.
-- In: p_now, p_channel, p_queue, p_ids (each once), p_delay_ms, p_due_at_ms (null: the delay counts), p_states (codes)
-- Out: as promote.sql
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_ids text[], p_delay_ms bigint, p_due_at_ms bigint,
    p_states smallint[]
) RETURNS smallint[] LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_now bigint;
    v_due bigint;
    v_answers smallint[] := array_fill(30::smallint, ARRAY[cardinality(p_ids)]);
    v_moving bigint[] := '{}';
    r record;
BEGIN
    IF v_queue IS NULL THEN
        RETURN v_answers;
    END IF;
    FOR r IN SELECT l.* FROM {lock_ids}(v_queue, p_ids) AS l LOOP
        IF v_now IS NULL THEN  -- they are locked by now
            v_now := {now_ms}(p_now);
            v_due := greatest(v_now, coalesce(p_due_at_ms, v_now + p_delay_ms));
        END IF;
        IF r.state = 0 THEN
            RAISE EXCEPTION 'nothing says where job % is', r.id USING ERRCODE = 'LM001';
        END IF;
        v_answers[r.n] := CASE WHEN r.state = ANY(p_states) THEN 10 ELSE 20 END + r.state;
        IF r.state = ANY(p_states) AND (r.state = 1 OR v_due > v_now) THEN
            v_moving := v_moving || r.job;
        END IF;
    END LOOP;
    IF cardinality(v_moving) > 0 THEN
        IF v_due > v_now THEN
            PERFORM {place_jobs}(v_queue, v_moving, '{1}', ARRAY[v_due], 3::smallint, v_now);
        ELSE
            PERFORM {place_jobs}(v_queue, v_moving, '{2}', ARRAY[v_due], 2::smallint, v_now);
        END IF;
        PERFORM {push}(p_channel, p_queue, true, NULL, NULL, NULL, NULL);
    END IF;
    RETURN v_answers;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
