-- Change the priority of jobs that have not started; their place within it is their age.
-- In: p_queue, p_ids (each once), p_priority
-- Out: as promote.sql
CREATE FUNCTION {self}(p_queue text, p_ids text[], p_priority integer)
RETURNS smallint[] LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_answers smallint[] := array_fill(30::smallint, ARRAY[cardinality(p_ids)]);
    v_jobs bigint[] := '{}';
    r record;
BEGIN
    IF v_queue IS NULL THEN
        RETURN v_answers;
    END IF;
    FOR r IN SELECT l.* FROM {lock_ids}(v_queue, p_ids) AS l LOOP
        IF r.state = 0 THEN
            RAISE EXCEPTION 'nothing says where job % is', r.id USING ERRCODE = 'LM001';
        END IF;
        v_answers[r.n] := CASE WHEN r.state IN (1, 2, 4) THEN 10 ELSE 20 END + r.state;
        IF r.state IN (1, 2, 4) THEN
            v_jobs := v_jobs || r.job;
        END IF;
    END LOOP;
    UPDATE {schema}.job SET priority = p_priority
    WHERE queue = v_queue AND key = ANY(v_jobs) AND priority <> p_priority;
    UPDATE {schema}.ready SET rank = -p_priority WHERE job = ANY(v_jobs) AND rank <> -p_priority;
    RETURN v_answers;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
