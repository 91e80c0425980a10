-- Have the jobs that wait for these told, through the outbox, how they ended; of those that have not, that it will
-- never be known.
-- In: p_queue, p_name (of the queue), p_keys
-- Out: nothing
CREATE FUNCTION {self}(p_queue integer, p_name text, p_keys bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.outbox (
        queue, kind, child_queue, child_id, child_generation, parent_queue, parent_id, parent_generation, on_failure,
        outcome
    )
    SELECT p_queue, 'resolve', d.queue, d.id, d.generation, p_name, j.id, j.generation, d.on_failure,
        (SELECT e.state FROM {schema}.ended AS e WHERE e.job = u.key)
    FROM unnest(p_keys) WITH ORDINALITY AS u (key, n)
    CROSS JOIN LATERAL (
        SELECT k.id, k.generation FROM {schema}.job AS k WHERE k.queue = p_queue AND k.key = u.key LIMIT 1
    ) AS j
    CROSS JOIN LATERAL (SELECT * FROM {schema}.dependant AS o WHERE o.job = u.key) AS d
    ORDER BY u.n, d.number;
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
