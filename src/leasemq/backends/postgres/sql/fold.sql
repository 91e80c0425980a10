-- Fold what the steps of a queue added to its counts into one row, once there are many.
-- In: p_queue, p_rows (so many at most)
-- Out: whether there may be more
CREATE FUNCTION {self}(p_queue integer, p_rows integer)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_gone bigint;
BEGIN
    IF (SELECT count(*) FROM (SELECT FROM {schema}.tally WHERE queue = p_queue LIMIT 20) AS f) < 20 THEN
        RETURN false;
    END IF;
    WITH chosen AS MATERIALIZED (
        SELECT o.number FROM {schema}.tally AS o WHERE o.queue = p_queue
        ORDER BY o.queue, o.number LIMIT p_rows FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM {schema}.tally AS t USING chosen AS c
        WHERE t.queue = p_queue AND t.number = c.number RETURNING t.*
    ), folded AS (
        INSERT INTO {schema}.tally (
            queue, accepted, removed, scheduled, waiting, active, blocked, completed, failed, cancelled, expired, refused,
            stalls, releases, slips
        )
        SELECT p_queue, sum(g.accepted), sum(g.removed), sum(g.scheduled), sum(g.waiting), sum(g.active), sum(g.blocked),
            sum(g.completed), sum(g.failed), sum(g.cancelled), sum(g.expired), sum(g.refused), sum(g.stalls),
            sum(g.releases), sum(g.slips)
        FROM gone AS g HAVING count(*) > 0
    )
    SELECT count(*) INTO v_gone FROM gone;
    RETURN v_gone >= p_rows;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
