-- Note on a parent that a job waits for it; a repeat changes nothing.
-- In: p_queue, p_id (of the parent), p_child_queue, p_child_id, p_child_generation, p_on_failure
-- Out: the code of the state that the parent ended in; 0: it has not ended; null: there is no record
CREATE FUNCTION {self}(
    p_queue text, p_id text, p_child_queue text, p_child_id text, p_child_generation integer, p_on_failure text
) RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_parent record;
BEGIN
    SELECT l.* INTO v_parent FROM {lock_ids}(v_queue, ARRAY[p_id]) AS l;
    IF v_parent.job IS NULL THEN
        RETURN NULL;
    ELSIF v_parent.state = 0 THEN
        RAISE EXCEPTION 'nothing says where job % is', p_id USING ERRCODE = 'LM001';
    END IF;
    IF NOT EXISTS (
        SELECT FROM {schema}.dependant AS d WHERE d.job = v_parent.job AND d.queue = p_child_queue
        AND d.id = p_child_id AND d.generation = p_child_generation
    ) THEN
        INSERT INTO {schema}.dependant (job, number, queue, id, generation, on_failure)
        SELECT v_parent.job, coalesce(max(d.number), 0) + 1, p_child_queue, p_child_id, p_child_generation, p_on_failure
        FROM {schema}.dependant AS d WHERE d.job = v_parent.job;
        PERFORM {flag}(v_parent.job, 9::smallint);
    END IF;
    RETURN CASE WHEN v_parent.state > 4 THEN v_parent.state ELSE 0 END;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
