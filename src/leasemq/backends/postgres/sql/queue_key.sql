-- Answer the key of a queue; null: nothing was ever asked of it.
-- In: p_queue
-- Out: key
CREATE FUNCTION {self}(p_queue text)
RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT key FROM {schema}.queue WHERE name = p_queue
$$;
