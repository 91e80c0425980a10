-- Answer a number per queue that changes with each of its events, and when it is paused or resumed: for who
-- cannot be notified. It is a sum, since the step that is committed last need not have drawn its place last.
-- In: p_queues
-- Out: numbers (0: nothing has happened)
CREATE FUNCTION {self}(p_queues text[])
RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(coalesce((
        SELECT 2 * coalesce((
            SELECT sum(f.seq)::bigint
            FROM (
                SELECT e.seq FROM {schema}.event AS e WHERE e.queue = q.key
                ORDER BY e.queue DESC, e.seq DESC LIMIT 1000
            ) AS f
        ), 0) + q.paused::integer
        FROM {schema}.queue AS q WHERE q.name = u.name
    ), 0) ORDER BY u.n), '{}')
    FROM unnest(p_queues) WITH ORDINALITY AS u (name, n)
$$ SET enable_seqscan = off SET enable_bitmapscan = off;
