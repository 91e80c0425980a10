-- Answer which of these jobs have ended, or have no record any more. One whose id lives another life is left out:
-- whoever waits for it reads that by himself.
-- In: p_queues, p_ids, p_generations
-- Out: number (place in the arrays, from 1)
CREATE FUNCTION {self}(p_queues text[], p_ids text[], p_generations integer[])
RETURNS TABLE (number bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE
    r record;
    v_job bigint;
    v_generation integer;
BEGIN
    FOR r IN
        SELECT u.queue, u.id, u.generation, u.n, q.key
        FROM unnest(p_queues, p_ids, p_generations) WITH ORDINALITY AS u (queue, id, generation, n)
        CROSS JOIN LATERAL (SELECT {queue_key}(u.queue) AS key) AS q
    LOOP
        SELECT key, generation INTO v_job, v_generation FROM {schema}.job WHERE queue = r.key AND id = r.id;
        IF v_job IS NULL OR (
            v_generation = r.generation AND EXISTS (SELECT FROM {schema}.ended WHERE job = v_job)
        ) THEN
            number := r.n;
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;
