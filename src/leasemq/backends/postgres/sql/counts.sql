-- Answer the stored counts of a queue: the sums of what each step added.
-- In: p_now, p_queue
-- Out: one row; none for an unknown queue
CREATE FUNCTION {self}(p_now bigint, p_queue text)
RETURNS TABLE (
    accepted bigint, removed bigint, scheduled bigint, waiting bigint, active bigint, blocked bigint,
    completed bigint, failed bigint, cancelled bigint, expired bigint, refused bigint, stalls bigint, releases bigint,
    paused boolean, oldest_waiting_ms bigint
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_now bigint := {now_ms}(p_now);
    v_queue {schema}.queue;
    v_since bigint;
BEGIN
    SELECT q.* INTO v_queue FROM {schema}.queue AS q WHERE q.name = p_queue;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- The longest waiting has the lowest place; each priority has its first in the order of the index.
    WITH RECURSIVE lane AS (
        (SELECT r.suspect, r.rank, r.place, r.since_ms FROM {schema}.ready AS r WHERE r.queue = v_queue.key
        ORDER BY r.suspect, r.rank, r.place LIMIT 1)
        UNION ALL
        SELECT f.suspect, f.rank, f.place, f.since_ms
        FROM lane AS l CROSS JOIN LATERAL (
            SELECT r.suspect, r.rank, r.place, r.since_ms FROM {schema}.ready AS r
            WHERE r.queue = v_queue.key AND (r.suspect, r.rank) > (l.suspect, l.rank)
            ORDER BY r.suspect, r.rank, r.place LIMIT 1
        ) AS f
    )
    SELECT l.since_ms INTO v_since FROM lane AS l ORDER BY l.place LIMIT 1;
    RETURN QUERY SELECT coalesce(sum(t.accepted), 0)::bigint, coalesce(sum(t.removed), 0)::bigint,
        coalesce(sum(t.scheduled), 0)::bigint, coalesce(sum(t.waiting), 0)::bigint,
        coalesce(sum(t.active), 0)::bigint, coalesce(sum(t.blocked), 0)::bigint,
        coalesce(sum(t.completed), 0)::bigint, coalesce(sum(t.failed), 0)::bigint,
        coalesce(sum(t.cancelled), 0)::bigint, coalesce(sum(t.expired), 0)::bigint,
        coalesce(sum(t.refused), 0)::bigint, coalesce(sum(t.stalls), 0)::bigint,
        coalesce(sum(t.releases), 0)::bigint, v_queue.paused, v_now - v_since
    FROM {schema}.tally AS t WHERE t.queue = v_queue.key;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
