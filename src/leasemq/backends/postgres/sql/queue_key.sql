-- Answer the key of a queue; null: nothing was ever asked of it.
-- In: p_queue
-- Out: key
CREATE FUNCTION {self}(p_queue text)
RETURNS integer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_key integer;
BEGIN
    SELECT q.key INTO v_key FROM {schema}.queue AS q WHERE q.name = p_queue;
    RETURN v_key;
END
$$;
