-- Lock jobs wherever they are, so that no other step moves them. A job that is on its way between two tables is
-- looked for again; one that was deleted meanwhile is left out.
-- In: p_queue, p_keys
-- Out: job, state (code; 0: nothing says where it is, so its record is corrupt); in no order
CREATE FUNCTION {self}(p_queue integer, p_keys bigint[])
RETURNS TABLE (job bigint, state smallint) LANGUAGE plpgsql AS $$
DECLARE
    v_left bigint[] := p_keys;
    v_jobs bigint[];
    v_states smallint[];
BEGIN
    FOR v_pass IN 1..10 LOOP
        WITH delayed AS MATERIALIZED (
            SELECT s.job, CASE WHEN s.blocked THEN 4 ELSE 1 END::smallint AS state
            FROM {schema}.scheduled AS s WHERE s.job = ANY(v_left) ORDER BY s.job FOR UPDATE
        ), waiting AS MATERIALIZED (
            SELECT r.job, 2::smallint AS state
            FROM {schema}.ready AS r WHERE r.job = ANY(v_left) ORDER BY r.job FOR UPDATE
        ), running AS MATERIALIZED (
            SELECT a.job, 3::smallint AS state
            FROM {schema}.active AS a WHERE a.job = ANY(v_left) ORDER BY a.job FOR UPDATE
        ), over AS MATERIALIZED (
            SELECT e.job, e.state FROM {schema}.ended AS e WHERE e.job = ANY(v_left) ORDER BY e.job FOR UPDATE
        )
        SELECT array_agg(f.job), array_agg(f.state) INTO v_jobs, v_states
        FROM (
            SELECT * FROM delayed UNION ALL SELECT * FROM waiting UNION ALL SELECT * FROM running
            UNION ALL SELECT * FROM over
        ) AS f;
        IF v_jobs IS NOT NULL THEN
            RETURN QUERY SELECT * FROM unnest(v_jobs, v_states);
            v_left := ARRAY(SELECT unnest(v_left) EXCEPT SELECT unnest(v_jobs));
        END IF;
        v_left := ARRAY(
            SELECT u.key FROM unnest(v_left) AS u (key)
            WHERE EXISTS (SELECT FROM {schema}.job AS j WHERE j.queue = p_queue AND j.key = u.key)
        );
        EXIT WHEN cardinality(v_left) = 0;
    END LOOP;
    RETURN QUERY SELECT u.key, 0::smallint FROM unnest(v_left) AS u (key);
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
