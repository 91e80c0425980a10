-- Tell a blocked job that a parent no longer blocks it, or that it can never run.
-- In: p_now, p_channel, p_queue, p_id, p_generation (of the blocked job), p_parent_queue, p_parent_id, p_passes
-- Out: whether anything changed
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_id text, p_generation integer, p_parent_queue text,
    p_parent_id text, p_passes boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_now bigint;
    v_job record;
    v_state smallint;
BEGIN
    SELECT l.* INTO v_job FROM {lock_ids}(v_queue, ARRAY[p_id]) AS l;
    v_now := {now_ms}(p_now);
    IF v_job.job IS NULL OR v_job.generation <> p_generation OR v_job.state <> 4 THEN
        RETURN false;
    END IF;
    DELETE FROM {schema}.parent AS p WHERE p.job = v_job.job AND p.queue = p_parent_queue AND p.id = p_parent_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF NOT p_passes THEN
        PERFORM {end_jobs}(v_queue, p_queue, ARRAY[v_job.job], 6::smallint, 'parent', v_now, p_channel);
    ELSIF NOT EXISTS (SELECT FROM {schema}.parent AS p WHERE p.job = v_job.job) THEN
        v_state := CASE WHEN v_job.due_ms > v_now THEN 1 ELSE 2 END;
        PERFORM {place_jobs}(v_queue, ARRAY[v_job.job], ARRAY[v_state], NULL, 14::smallint, v_now);
        PERFORM {push}(p_channel, p_queue, true, NULL, NULL, NULL, NULL);
    END IF;
    RETURN true;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
