-- Answer the key of a queue, and register it first if it is new.
-- In: p_queue
-- Out: key
CREATE FUNCTION {self}(p_queue text)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_key integer;
BEGIN
    SELECT key INTO v_key FROM {schema}.queue WHERE name = p_queue;
    IF v_key IS NULL THEN
        INSERT INTO {schema}.queue (name) VALUES (p_queue) ON CONFLICT (name) DO NOTHING;
        SELECT key INTO STRICT v_key FROM {schema}.queue WHERE name = p_queue;
        INSERT INTO {schema}.feed (queue) VALUES (v_key) ON CONFLICT (queue) DO NOTHING;
    END IF;
    RETURN v_key;
END
$$;
