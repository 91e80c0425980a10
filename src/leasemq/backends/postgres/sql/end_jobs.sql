-- End jobs that have not started, in the order given: keys freed, dependants told, counted and told to listeners;
-- those that are not kept are deleted. They are locked by the caller; any that has started is passed over.
-- In: p_queue, p_name (of the queue), p_keys, p_state (code of a terminal state), p_reason (null: as it is), p_now,
-- p_channel
-- Out: nothing
CREATE FUNCTION {self}(
    p_queue integer, p_name text, p_keys bigint[], p_state smallint, p_reason text, p_now bigint, p_channel text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v record;
    v_key bigint;
BEGIN
    SELECT
        array_agg(f.key ORDER BY f.n) AS keys, array_agg(f.id ORDER BY f.n) AS ids,
        array_agg(f.generation ORDER BY f.n) AS lives, array_agg(f.attempts ORDER BY f.n) AS attempts,
        array_agg(f.kept_ms ORDER BY f.n) AS keeps, min(f.kept_ms) AS least_kept_ms,
        bit_or(f.flags) AS flags,
        count(*) FILTER (WHERE f.state = 1) AS scheduled, count(*) FILTER (WHERE f.state = 2) AS waiting,
        count(*) FILTER (WHERE f.state = 4) AS blocked
    INTO v
    FROM (
        SELECT u.n, u.key, s.state, s.flags, s.attempts, j.id, j.generation,
            CASE WHEN p_state = 7 THEN j.keep_record_ms ELSE j.keep_dead_ms END AS kept_ms
        FROM unnest(p_keys) WITH ORDINALITY AS u (key, n)
        CROSS JOIN LATERAL (
            SELECT state, flags, attempts FROM {schema}.stand WHERE job = u.key AND state IN (1, 2, 4) LIMIT 1
        ) AS s
        CROSS JOIN LATERAL (SELECT * FROM {schema}.job WHERE queue = p_queue AND key = u.key LIMIT 1) AS j
    ) AS f;
    IF v.keys IS NULL THEN
        RETURN;
    END IF;
    IF v.least_kept_ms <= 0 AND cardinality(v.keys) > 1 THEN  -- the end of each is told beside its removal
        FOREACH v_key IN ARRAY v.keys LOOP
            PERFORM {self}(p_queue, p_name, ARRAY[v_key], p_state, p_reason, p_now, p_channel);
        END LOOP;
        RETURN;
    END IF;
    WITH unscheduled AS (
        DELETE FROM {schema}.scheduled WHERE job = ANY(v.keys) RETURNING
            job, suspect, flags, attempts, failures, stalls, fence, due_ms, expires_ms
    ), unready AS (
        DELETE FROM {schema}.ready WHERE job = ANY(v.keys) RETURNING
            job, suspect, flags, attempts, failures, stalls, fence, due_ms, expires_ms
    ), gone AS (
        SELECT * FROM unscheduled UNION ALL SELECT * FROM unready
    ), sorted AS (
        SELECT g.*, v.keeps[array_position(v.keys, g.job)] AS kept_ms FROM gone AS g
        ORDER BY array_position(v.keys, g.job)
    )
    INSERT INTO {schema}.ended (
        job, place, queue, state, suspect, cancel_requested, replay, flags, attempts, failures, stalls, fence,
        due_ms, expires_ms, ended_ms, keep_until_ms, prune_ms, reason
    )
    SELECT g.job, nextval('{schema}.place'), p_queue, p_state, g.suspect, false, false, g.flags & ~38, g.attempts,
        g.failures, g.stalls, g.fence, g.due_ms, g.expires_ms, p_now, p_now + g.kept_ms, p_now + g.kept_ms,
        coalesce(p_reason, CASE WHEN g.flags & 1 <> 0 THEN (
            SELECT x.reason FROM {schema}.extra AS x WHERE x.job = g.job
        ) END)
    FROM sorted AS g;
    IF v.flags & 6 <> 0 THEN
        PERFORM {free_keys}(p_queue, v.keys, true);
    END IF;
    IF v.flags & 8 <> 0 THEN
        PERFORM {tell_dependants}(p_queue, p_name, v.keys);
    END IF;
    INSERT INTO {schema}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)
    VALUES (
        p_queue, cardinality(v.keys), nextval('{schema}.event_seq'), p_now, v.ids, v.lives,
        ARRAY[CASE p_state WHEN 6 THEN 76 WHEN 7 THEN 127 ELSE 138 END]::smallint[], v.attempts
    );
    INSERT INTO {schema}.tally (queue, scheduled, waiting, blocked, failed, cancelled, expired)
    VALUES (
        p_queue, -v.scheduled, -v.waiting, -v.blocked,
        CASE WHEN p_state = 6 THEN cardinality(v.keys) ELSE 0 END,
        CASE WHEN p_state = 7 THEN cardinality(v.keys) ELSE 0 END,
        CASE WHEN p_state = 8 THEN cardinality(v.keys) ELSE 0 END
    );
    IF v.flags & 16 <> 0 THEN
        PERFORM {trace}(
            p_queue, v.keys, ARRAY[CASE p_state WHEN 6 THEN 7 WHEN 7 THEN 12 ELSE 13 END]::smallint[], NULL, p_now
        );
    END IF;
    IF v.least_kept_ms <= 0 THEN
        PERFORM {drop_jobs}(p_queue, p_name, v.keys, true, p_now);
    END IF;
    PERFORM {push}(p_channel, p_name, false, NULL, NULL, v.ids, v.lives);
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
