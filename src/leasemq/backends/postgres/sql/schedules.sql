-- Answer all schedules, by name.
-- In: nothing
-- Out: name, queue, spec, cursor_ms, paused
CREATE FUNCTION {self}()
RETURNS TABLE (name text, queue text, spec bytea, cursor_ms bigint, paused boolean) LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT s.name, s.queue, s.spec, s.cursor_ms, s.paused FROM {schema}.schedule AS s ORDER BY s.name;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
