-- Let a queue's jobs be claimed again, and have its workers look. No event is written, so no follower is told.
-- In: p_channel (null: nobody is told), p_queue
-- Out: nothing
CREATE FUNCTION {self}(p_channel text, p_queue text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {schema}.queue SET paused = false WHERE name = p_queue AND paused;
    IF p_channel IS NOT NULL THEN
        PERFORM pg_notify(p_channel, json_build_array(p_queue, true, false, '[]'::json, '[]'::json)::text);
    END IF;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
