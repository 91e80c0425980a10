-- Answer the workers whose announcement is still good.
-- In: p_now
-- Out: info (packed), seen_ms; in no order
CREATE FUNCTION {self}(p_now bigint)
RETURNS TABLE (info bytea, seen_ms bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_now bigint := {now_ms}(p_now);
BEGIN
    RETURN QUERY SELECT w.info, w.seen_ms FROM {schema}.worker AS w WHERE w.until_ms > v_now ORDER BY w.incarnation;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
