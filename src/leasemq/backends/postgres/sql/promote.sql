-- Make scheduled jobs waiting now.
-- In: p_now, p_channel, p_queue, p_ids (each once)
-- Out: answers, in order: 10 done, 20 illegal (each + the code of the state that was found), 30 not_found
CREATE FUNCTION {self}(p_now bigint, p_channel text, p_queue text, p_ids text[])
RETURNS smallint[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN {put_off}(p_now, p_channel, p_queue, p_ids, 0, NULL, '{1}');
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
