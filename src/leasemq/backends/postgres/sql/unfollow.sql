-- Note that a listener wants to hear of these queues' events no more.
-- In: p_listener, p_queues
-- Out: nothing
CREATE FUNCTION {self}(p_listener text, p_queues text[])
RETURNS void LANGUAGE sql VOLATILE AS $$
    DELETE FROM {schema}.follower WHERE listener = p_listener AND queue = ANY (p_queues)
$$;
