-- Delete jobs that ended in these states long enough ago, the longest ended first.
-- In: p_now, p_channel, p_queue, p_states (codes of terminal states), p_age_ms, p_limit
-- Out: how many
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_states smallint[], p_age_ms bigint, p_limit integer
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_now bigint := {now_ms}(p_now);
    v_keys bigint[];
BEGIN
    v_keys := {lock_ended}(ARRAY(
        SELECT e.job FROM unnest(p_states) AS u (state)
        CROSS JOIN LATERAL (
            SELECT o.job, o.ended_ms FROM {schema}.ended AS o
            WHERE o.queue = v_queue AND o.state = u.state AND o.ended_ms <= v_now - p_age_ms
            ORDER BY o.ended_ms, o.job LIMIT p_limit
        ) AS e
        ORDER BY e.ended_ms, e.job LIMIT p_limit
    ), false);
    PERFORM {drop_for_good}(p_channel, v_queue, p_queue, v_keys, v_now);
    RETURN cardinality(v_keys);
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
