-- Answer everything that is stored about jobs, by their keys; in no order. Of the arrays, `history` has eleven
-- columns side by side, `refused` three and `parents` three. A job without a place has no state.
-- In: p_queue, p_keys, p_now (of a result past its time nothing is answered)
-- Out: one row per job
CREATE FUNCTION {self}(p_queue integer, p_keys bigint[], p_now bigint)
RETURNS TABLE (
    key bigint, id text, generation integer, task text, payload bytea, state smallint, priority smallint,
    created_ms bigint, due_ms bigint, expires_ms bigint, attempts integer, failures integer, stalls integer,
    max_stalls integer, suspect boolean, cancel_requested boolean, fence bigint, lease_until_ms bigint,
    ended_ms bigint, keep_until_ms bigint, result bytea, result_until_ms bigint, error bytea, reason text,
    progress bytea, checkpoint bytea, keep_result_ms bigint, keep_record_ms bigint, keep_dead_ms bigint,
    unique_key text, unique_mode text, unique_until text, unique_window_ms bigint, creator_queue text, creator_id text,
    creator_generation integer, replays integer, overrides bytea, headers bytea, trail integer, born text,
    past_numbers integer[], past_workers text[], past_incarnations text[], past_fences bigint[], past_claimed bigint[],
    past_renewed bigint[], past_ended bigint[], past_outcomes smallint[], past_errors bytea[], past_replays boolean[],
    refused_at bigint[], refused_fences bigint[], refused_writes text[], refused_count integer, log bytea[],
    parent_queues text[], parent_ids text[], parent_policies text[]
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT j.key, j.id, j.generation, j.task, j.payload, s.state, j.priority, j.created_ms, s.due_ms, s.expires_ms,
        s.attempts, s.failures, s.stalls, j.max_stalls, s.suspect, s.cancel_requested, s.fence, s.lease_until_ms,
        s.ended_ms, d.keep_until_ms,
        CASE WHEN d.result_until_ms IS NULL OR d.result_until_ms > p_now THEN d.result END, d.result_until_ms, coalesce(d.error, e.error),
        CASE WHEN d.job IS NULL THEN e.reason ELSE d.reason END, e.progress, e.checkpoint,
        j.keep_result_ms, j.keep_record_ms, j.keep_dead_ms, j.unique_key, j.unique_mode, j.unique_until,
        j.unique_window_ms, j.creator_queue, j.creator_id, j.creator_generation, coalesce(e.replays, 0),
        j.overrides, j.headers, j.trail, 'e' || j.born_seq || '.' || j.born_index,
        h.numbers, h.workers, h.incarnations, h.fences, h.claimed, h.renewed, h.ended, h.outcomes, h.errors,
        h.replays, r.at_ms, r.fences, r.writes, coalesce(r.count, 0), l.lines, p.queues, p.ids, p.policies
    FROM unnest(p_keys) AS u (key)
    CROSS JOIN LATERAL (SELECT * FROM {schema}.job AS f WHERE f.queue = p_queue AND f.key = u.key LIMIT 1) AS j
    LEFT JOIN LATERAL (SELECT * FROM {schema}.stand AS f WHERE f.job = u.key LIMIT 1) AS s ON true
    LEFT JOIN LATERAL (SELECT * FROM {schema}.ended AS f WHERE f.job = u.key LIMIT 1) AS d ON true
    LEFT JOIN LATERAL (SELECT * FROM {schema}.extra AS f WHERE f.job = u.key LIMIT 1) AS e ON true
    CROSS JOIN LATERAL (
        SELECT array_agg(b.number ORDER BY b.fence) AS numbers, array_agg(b.worker ORDER BY b.fence) AS workers,
            array_agg(b.incarnation ORDER BY b.fence) AS incarnations, array_agg(b.fence ORDER BY b.fence) AS fences,
            array_agg(b.claimed_ms ORDER BY b.fence) AS claimed, array_agg(b.renewed_ms ORDER BY b.fence) AS renewed,
            array_agg(b.ended_ms ORDER BY b.fence) AS ended, array_agg(b.outcome ORDER BY b.fence) AS outcomes,
            array_agg(b.error ORDER BY b.fence) AS errors, array_agg(b.replay ORDER BY b.fence) AS replays
        FROM (
            SELECT c.* FROM (
                SELECT t.number, t.worker, t.incarnation, t.fence, t.claimed_ms, t.renewed_ms, t.ended_ms, t.outcome,
                    t.error, t.replay
                FROM {schema}.attempt AS t WHERE t.job = u.key
                UNION ALL
                SELECT a.attempts, a.worker, a.incarnation, a.fence, a.claimed_ms, a.renewed_ms, NULL, NULL, NULL,
                    a.replay
                FROM {schema}.active AS a WHERE a.job = u.key
                UNION ALL
                SELECT n.attempts, n.worker, n.incarnation, n.fence, n.claimed_ms, n.renewed_ms, n.ended_ms, n.outcome,
                    n.error, n.replay
                FROM {schema}.ended AS n WHERE n.job = u.key AND n.claimed_ms IS NOT NULL
            ) AS c ORDER BY c.fence DESC LIMIT 100
        ) AS b
    ) AS h
    CROSS JOIN LATERAL (
        SELECT array_agg(t.at_ms ORDER BY t.number) AS at_ms, array_agg(t.fence ORDER BY t.number) AS fences,
            array_agg(t.write ORDER BY t.number) AS writes, max(t.number) AS count
        FROM {schema}.refused AS t WHERE t.job = u.key
    ) AS r
    CROSS JOIN LATERAL (
        SELECT array_agg(t.line ORDER BY t.number) AS lines FROM {schema}.log AS t WHERE t.job = u.key
    ) AS l
    CROSS JOIN LATERAL (
        SELECT array_agg(t.queue ORDER BY t.number) AS queues, array_agg(t.id ORDER BY t.number) AS ids,
            array_agg(t.on_failure ORDER BY t.number) AS policies
        FROM {schema}.parent AS t WHERE t.job = u.key
    ) AS p;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
