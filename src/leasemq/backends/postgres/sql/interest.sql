-- Note that a listener wants to hear of these jobs' ends. Which of them have ended is asked afterwards
-- (`ended_of`), when these rows can be seen by whoever ends one.
-- In: p_listener, p_queues, p_ids, p_generations, p_ttl_ms (by the server's own clock, whatever a test's says)
-- Out: nothing
CREATE FUNCTION {self}(
    p_listener text, p_queues text[], p_ids text[], p_generations integer[], p_ttl_ms bigint
) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO {schema}.interest AS i (queue, id, generation, listener, until_ms)
    SELECT u.queue, u.id, u.generation, p_listener, {now_ms}(NULL) + p_ttl_ms
    FROM unnest(p_queues, p_ids, p_generations) AS u (queue, id, generation)
    ORDER BY u.queue, u.id, u.generation
    ON CONFLICT (queue, id, generation, listener) DO UPDATE SET until_ms = excluded.until_ms
$$;
