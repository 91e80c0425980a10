-- Note that a listener wants to hear of these jobs' ends no more.
-- In: p_listener, p_queues, p_ids, p_generations
-- Out: nothing
CREATE FUNCTION {self}(p_listener text, p_queues text[], p_ids text[], p_generations integer[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    FOR r IN
        SELECT u.queue, u.id, u.generation FROM unnest(p_queues, p_ids, p_generations) AS u (queue, id, generation)
        ORDER BY u.queue, u.id, u.generation
    LOOP
        DELETE FROM {schema}.interest
        WHERE queue = r.queue AND id = r.id AND generation = r.generation AND listener = p_listener;
    END LOOP;
END
$$;
