-- Stop claims of a queue, and register it first if it is new.
-- In: p_queue
-- Out: nothing
CREATE FUNCTION {self}(p_queue text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {open_queue}(p_queue);
BEGIN
    UPDATE {schema}.queue SET paused = true WHERE key = v_queue AND NOT paused;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
