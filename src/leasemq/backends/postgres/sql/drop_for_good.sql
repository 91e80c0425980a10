-- Delete jobs on an operator's word: no result of any life of their ids stays. They are locked by the caller.
-- In: p_channel, p_queue, p_name (of the queue), p_keys, p_now
-- Out: nothing
CREATE FUNCTION {self}(p_channel text, p_queue integer, p_name text, p_keys bigint[], p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_ids text[];
BEGIN
    IF p_keys IS NULL OR cardinality(p_keys) = 0 THEN
        RETURN;
    END IF;
    v_ids := ARRAY(SELECT j.id FROM {schema}.job AS j WHERE j.queue = p_queue AND j.key = ANY(p_keys));
    PERFORM {drop_jobs}(p_queue, p_name, p_keys, false, p_now);
    PERFORM {forget_slips}(p_queue, v_ids);
    PERFORM {push}(p_channel, p_name, false, NULL, NULL, NULL, NULL);
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
