-- Make scheduled or waiting jobs due later, or now.
-- In: p_now, p_channel, p_queue, p_ids (each once), p_delay_ms, p_due_at_ms (null: the delay counts)
-- Out: as promote.sql
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_ids text[], p_delay_ms bigint, p_due_at_ms bigint
) RETURNS smallint[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN {put_off}(p_now, p_channel, p_queue, p_ids, p_delay_ms, p_due_at_ms, '{1,2}');
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
