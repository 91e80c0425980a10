-- Create a schedule, or replace it by name; the later of two cursors stays.
-- In: p_name, p_queue, p_spec, p_cursor_ms, p_paused
-- Out: nothing
CREATE FUNCTION {self}(p_name text, p_queue text, p_spec bytea, p_cursor_ms bigint, p_paused boolean)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.schedule AS s (name, queue, spec, cursor_ms, paused)
    VALUES (p_name, p_queue, p_spec, p_cursor_ms, p_paused)
    ON CONFLICT (name) DO UPDATE SET
        queue = excluded.queue, spec = excluded.spec, paused = excluded.paused,
        cursor_ms = greatest(s.cursor_ms, excluded.cursor_ms);
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
