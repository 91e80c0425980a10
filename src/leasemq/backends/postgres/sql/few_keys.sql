-- Answer the jobs of some states if there are few of them.
-- In: p_queue, p_states (codes), p_few
-- Out: their keys, in no order; null: there are more
CREATE FUNCTION {self}(p_queue integer, p_states smallint[], p_few integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF (
        SELECT sum(u.number)
        FROM (
            SELECT sum(t.scheduled) AS s1, sum(t.waiting) AS s2, sum(t.active) AS s3, sum(t.blocked) AS s4,
                sum(t.completed) AS s5, sum(t.failed) AS s6, sum(t.cancelled) AS s7, sum(t.expired) AS s8
            FROM {schema}.tally AS t WHERE t.queue = p_queue
        ) AS c
        CROSS JOIN LATERAL unnest(ARRAY[s1, s2, s3, s4, s5, s6, s7, s8]) WITH ORDINALITY AS u (number, state)
        WHERE u.state = ANY(p_states)
    ) > p_few THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(
        SELECT s.job FROM {schema}.scheduled AS s WHERE s.queue = p_queue AND NOT s.blocked AND 1 = ANY(p_states)
        UNION ALL
        SELECT s.job FROM {schema}.scheduled AS s WHERE s.queue = p_queue AND s.blocked AND 4 = ANY(p_states)
        UNION ALL
        SELECT r.job FROM {schema}.ready AS r WHERE r.queue = p_queue AND 2 = ANY(p_states)
        UNION ALL
        SELECT a.job FROM {schema}.active AS a WHERE a.queue = p_queue AND 3 = ANY(p_states)
        UNION ALL
        SELECT e.job FROM {schema}.ended AS e WHERE e.queue = p_queue AND e.state = ANY(p_states)
    );
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
