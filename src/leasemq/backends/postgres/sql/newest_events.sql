-- Answer a number per queue that changes with each of its events, and when it is paused or resumed: for who
-- cannot be notified.
-- In: p_queues
-- Out: numbers (0: nothing has happened)
CREATE FUNCTION {self}(p_queues text[])
RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(coalesce((
        SELECT 2 * coalesce((SELECT max(e.seq) FROM {schema}.event AS e WHERE e.queue = q.key), 0) + q.paused::integer
        FROM {schema}.queue AS q WHERE q.name = u.name
    ), 0) ORDER BY u.n), '{}')
    FROM unnest(p_queues) WITH ORDINALITY AS u (name, n)
$$;
