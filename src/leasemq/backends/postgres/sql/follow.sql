-- Note that a listener wants to hear when these queues have new events.
-- In: p_listener, p_queues, p_ttl_ms
-- Out: a number for each, as newest_events
CREATE FUNCTION {self}(p_listener text, p_queues text[], p_ttl_ms bigint)
RETURNS bigint[] LANGUAGE sql VOLATILE AS $$
    INSERT INTO {schema}.follower (queue, listener, until_ms)
    SELECT u.queue, p_listener, {now_ms}(NULL) + p_ttl_ms FROM unnest(p_queues) AS u (queue) ORDER BY u.queue
    ON CONFLICT (queue, listener) DO UPDATE SET until_ms = excluded.until_ms;
    SELECT {newest_events}(p_queues)
$$;
