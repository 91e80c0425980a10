-- Answer entries of a job's own trail, oldest first, up to a page of values and one beyond it.
-- In: p_queue, p_id, p_generation (null: whichever it is), p_after (the number of the last that was seen), p_limit,
-- p_bytes
-- Out: one row with the generation in `number`, the numbers of the oldest and the newest entry kept (0: none) in
-- `at_ms` and `attempt`; none, if there is no such life; then the entries
CREATE FUNCTION {self}(
    p_queue text, p_id text, p_generation integer, p_after bigint, p_limit integer, p_bytes bigint
) RETURNS TABLE (number integer, at_ms bigint, attempt integer, kind smallint, state smallint, value bytea)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_key bigint;
BEGIN
    SELECT j.key, j.generation INTO v_key, number FROM {schema}.job AS j
    WHERE j.queue = v_queue AND j.id = p_id AND (p_generation IS NULL OR j.generation = p_generation);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT coalesce(min(t.number), 0), coalesce(max(t.number), 0) INTO at_ms, attempt
    FROM {schema}.trail AS t WHERE t.job = v_key;
    RETURN NEXT;
    RETURN QUERY
    SELECT f.number, f.at_ms, f.attempt, f.kind, f.state, f.value
    FROM (
        SELECT o.*, sum(coalesce(octet_length(o.value), 0)) OVER (ORDER BY o.number)
            - coalesce(octet_length(o.value), 0) AS before_bytes
        FROM (
            SELECT * FROM {schema}.trail AS t WHERE t.job = v_key AND t.number > p_after
            ORDER BY t.job, t.number LIMIT p_limit
        ) AS o
    ) AS f
    WHERE f.before_bytes <= p_bytes
    ORDER BY f.number;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
