-- Tell listeners what this step did to a queue: one notification at its commit, and none that nobody hears.
-- The payload is a JSON array: queue, whether workers should look, whether a follower hears of new events,
-- cancelled active jobs and ended jobs as [id, generation]. Null in place of both lists: anything may have ended.
-- In: p_channel (null: nobody is told), p_queue, p_woken, p_cancel_ids, p_cancel_lives, p_ended_ids, p_ended_lives
-- Out: nothing
CREATE FUNCTION {self}(
    p_channel text, p_queue text, p_woken boolean, p_cancel_ids text[], p_cancel_lives integer[],
    p_ended_ids text[], p_ended_lives integer[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_changed boolean;
    v_cancels json;
    v_ended json;
    v_payload text;
BEGIN
    IF p_channel IS NULL THEN
        RETURN;
    END IF;
    v_changed := EXISTS (SELECT FROM {schema}.follower WHERE queue = p_queue);
    IF p_cancel_ids IS NOT NULL THEN
        SELECT json_agg(json_build_array(u.id, coalesce(u.life, p_cancel_lives[1]))) INTO v_cancels
        FROM unnest(p_cancel_ids, p_cancel_lives) AS u (id, life);
    END IF;
    IF p_ended_ids IS NOT NULL AND EXISTS (SELECT FROM {schema}.interest WHERE queue = p_queue) THEN
        SELECT json_agg(json_build_array(u.id, coalesce(u.life, p_ended_lives[1]))) INTO v_ended
        FROM unnest(p_ended_ids, p_ended_lives) AS u (id, life)
        WHERE EXISTS (
            SELECT FROM {schema}.interest AS i
            WHERE i.queue = p_queue AND i.id = u.id AND i.generation = coalesce(u.life, p_ended_lives[1])
        );
    END IF;
    IF p_woken OR v_changed OR v_cancels IS NOT NULL OR v_ended IS NOT NULL THEN
        v_payload := json_build_array(
            p_queue, p_woken, v_changed, coalesce(v_cancels, '[]'::json), coalesce(v_ended, '[]'::json)
        )::text;
        IF octet_length(v_payload) > 7500 THEN  -- NOTIFY takes less than 8,000 bytes
            v_payload := json_build_array(p_queue, true, true, NULL, NULL)::text;
        END IF;
        PERFORM pg_notify(p_channel, v_payload);
    END IF;
END
$$;
