-- Keep what a listener wants to hear of, and forget what nobody has kept: its listener is gone.
-- In: p_listener, p_ttl_ms (0: this listener has ended)
-- Out: how many were kept
CREATE FUNCTION {self}(p_listener text, p_ttl_ms bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := {now_ms}(NULL);
    v_jobs bigint := 0;
    v_queues bigint := 0;
BEGIN
    IF p_ttl_ms > 0 THEN
        UPDATE {schema}.interest SET until_ms = v_now + p_ttl_ms WHERE listener = p_listener;
        GET DIAGNOSTICS v_jobs = ROW_COUNT;
        UPDATE {schema}.follower SET until_ms = v_now + p_ttl_ms WHERE listener = p_listener;
        GET DIAGNOSTICS v_queues = ROW_COUNT;
    ELSE
        DELETE FROM {schema}.interest WHERE listener = p_listener;
        DELETE FROM {schema}.follower WHERE listener = p_listener;
    END IF;
    DELETE FROM {schema}.interest WHERE (queue, id, generation, listener) IN (
        SELECT queue, id, generation, listener FROM {schema}.interest WHERE until_ms < v_now FOR UPDATE SKIP LOCKED
    );
    DELETE FROM {schema}.follower WHERE (queue, listener) IN (
        SELECT queue, listener FROM {schema}.follower WHERE until_ms < v_now FOR UPDATE SKIP LOCKED
    );
    RETURN v_jobs + v_queues;
END
$$;
