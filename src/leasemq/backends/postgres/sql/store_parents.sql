-- Store the parents that new jobs wait for, and have each told through the outbox.
-- In: p_queue, p_name, p_keys (null: not stored), p_ids, p_lives, p_places, p_queues, p_parents, p_policies
-- Out: nothing
CREATE FUNCTION {self}(
    p_queue integer, p_name text, p_keys bigint[], p_ids text[], p_lives integer[], p_places integer[],
    p_queues text[], p_parents text[], p_policies text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Of a parent that is named twice the last policy counts, at the place of the first.
    INSERT INTO {schema}.parent (job, number, queue, id, on_failure)
    SELECT p_keys[f.place], f.number, f.queue, f.id, f.policies[cardinality(f.policies)]
    FROM (
        SELECT u.place, min(u.n) AS number, u.queue, u.id, array_agg(u.policy ORDER BY u.n) AS policies
        FROM unnest(p_places, p_queues, p_parents, p_policies) WITH ORDINALITY AS u (place, queue, id, policy, n)
        WHERE p_keys[u.place] IS NOT NULL
        GROUP BY u.place, u.queue, u.id
    ) AS f;
    INSERT INTO {schema}.outbox (
        queue, kind, child_queue, child_id, child_generation, parent_queue, parent_id, parent_generation, on_failure
    )
    SELECT p_queue, 'attach', p_name, p_ids[u.place], p_lives[u.place], u.queue, u.id, 0, u.policy
    FROM unnest(p_places, p_queues, p_parents, p_policies) WITH ORDINALITY AS u (place, queue, id, policy, n)
    WHERE p_keys[u.place] IS NOT NULL ORDER BY u.n;
END
$$;
