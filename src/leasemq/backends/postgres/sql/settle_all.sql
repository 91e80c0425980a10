-- Write the settlements that apply: the end or the next wait of each job, its attempt, the counts, one event row, and
-- what hangs on an end. An active row is compared where it is locked, and deleted in the same statement. Arrays: one
-- each, or null.
-- In: p_now, p_channel, p_queue, p_name, p_keys (null: not found), p_ids, p_lives, p_settlements, p_fences, p_nonces,
-- p_outcomes, p_states, p_failures, p_stalls, p_sweeps, p_seens, p_delays, p_suspects, p_results, p_errors, p_reasons,
-- p_keeps, p_result_keeps
-- Out: the places (from 1) of those that were written
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue integer, p_name text, p_keys bigint[], p_ids text[], p_lives integer[],
    p_settlements bigint[], p_fences bigint[], p_nonces text[], p_outcomes smallint[], p_states smallint[],
    p_failures integer[], p_stalls integer[], p_sweeps boolean[], p_seens boolean[], p_delays bigint[],
    p_suspects boolean[], p_results bytea[], p_errors bytea[], p_reasons text[], p_keeps bigint[],
    p_result_keeps bigint[]
) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    v record;
    v_ended integer;
BEGIN
    -- Locks in the order of the keys, as everybody does.
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(
            p_keys, p_settlements, p_fences, p_nonces, p_outcomes, p_states, p_failures, p_stalls, p_sweeps, p_seens,
            p_delays, p_suspects, p_results, p_errors, p_reasons, p_keeps, p_result_keeps
        ) WITH ORDINALITY AS u (
            key, settlement, fence, nonce, outcome, state, failures, stalls, sweep, seen, delay, suspect, result, error,
            reason, keep, result_keep, n
        )
        ORDER BY u.key
    ), held AS (
        SELECT u.n::integer AS n, u.settlement, u.outcome, u.state, u.failures, u.stalls, u.delay, u.suspect,
            u.result, u.error, u.reason, coalesce(u.keep, 0) AS keep, u.result_keep, a.job, a.fence, a.attempts,
            a.cancel_requested, a.replay, a.flags, a.due_ms, a.expires_ms, a.claimed_ms, a.renewed_ms, a.worker,
            a.incarnation
        FROM asked AS u
        CROSS JOIN LATERAL (
            SELECT f.* FROM {schema}.active AS f
            WHERE f.job = u.key AND f.fence = u.fence AND f.nonce = u.nonce
            AND (NOT u.sweep OR f.lease_until_ms <= p_now) AND (u.seen OR NOT f.cancel_requested)
            AND (f.flags & 1 = 0 OR NOT EXISTS (
                SELECT FROM {schema}.attempt AS t WHERE t.job = u.key AND t.settled_by = u.settlement
            ))
            FOR UPDATE OF f
        ) AS a
    ), sorted AS MATERIALIZED (
        SELECT h.* FROM held AS h ORDER BY h.n
    ), gone AS (
        DELETE FROM {schema}.active AS a WHERE a.job = ANY(ARRAY(SELECT g.job FROM sorted AS g))
    ), over AS (
        INSERT INTO {schema}.ended (
            job, place, queue, state, outcome, suspect, cancel_requested, replay, flags, attempts, failures, stalls,
            fence, due_ms, expires_ms, ended_ms, keep_until_ms, prune_ms, result_until_ms, claimed_ms, renewed_ms,
            settled_by, worker, incarnation, reason, error, result
        )
        SELECT g.job, nextval('{schema}.place'), p_queue, g.state, g.outcome, g.suspect, g.cancel_requested, g.replay,
            g.flags & ~6, g.attempts, g.failures, g.stalls, g.fence, g.due_ms, g.expires_ms, p_now, p_now + g.keep,
            p_now + CASE WHEN g.result IS NULL THEN g.keep ELSE least(g.keep, g.result_keep) END,
            p_now + g.result_keep, g.claimed_ms, g.renewed_ms, g.settlement, g.worker, g.incarnation, g.reason,
            g.error, g.result
        FROM sorted AS g WHERE g.state > 4
    ), past AS (
        INSERT INTO {schema}.attempt (
            job, fence, number, outcome, replay, claimed_ms, renewed_ms, ended_ms, settled_by, worker, incarnation,
            error
        )
        SELECT g.job, g.fence, g.attempts, g.outcome, g.replay, g.claimed_ms, g.renewed_ms, p_now, g.settlement,
            g.worker, g.incarnation, g.error
        FROM sorted AS g WHERE g.state < 3
    ), known AS (
        INSERT INTO {schema}.extra (job, error, reason)
        SELECT g.job, g.error, g.reason FROM sorted AS g
        WHERE g.state < 3 AND (g.error IS NOT NULL OR g.reason IS NOT NULL OR g.flags & 1 <> 0)
        ON CONFLICT (job) DO UPDATE SET error = coalesce(excluded.error, extra.error), reason = excluded.reason
    ), waiting AS (
        INSERT INTO {schema}.ready (
            job, place, queue, rank, suspect, flags, attempts, failures, stalls, fence, since_ms, due_ms, expires_ms
        )
        SELECT g.job, nextval('{schema}.place'), p_queue, -j.priority, g.suspect, g.flags | 1, g.attempts, g.failures,
            g.stalls, g.fence, p_now, p_now + g.delay, g.expires_ms
        FROM sorted AS g
        CROSS JOIN LATERAL (
            SELECT k.priority FROM {schema}.job AS k WHERE k.queue = p_queue AND k.key = g.job LIMIT 1
        ) AS j
        WHERE g.state = 2
    ), delayed AS (
        INSERT INTO {schema}.scheduled (
            job, place, queue, blocked, suspect, flags, attempts, failures, stalls, fence, due_ms, expires_ms
        )
        SELECT g.job, nextval('{schema}.place'), p_queue, false, g.suspect, g.flags | 1, g.attempts, g.failures,
            g.stalls, g.fence, p_now + g.delay, g.expires_ms
        FROM sorted AS g WHERE g.state = 1
    )
    SELECT array_agg(f.n) AS places, array_agg(f.job) AS jobs, array_agg(f.attempts) AS attempts,
        bit_or(f.flags) AS flags, min(f.keep) AS least_kept_ms,
        array_agg(f.job) FILTER (WHERE f.state > 4) AS ended, array_agg(f.kind) AS kinds,
        array_agg((10 * f.kind + f.state)::smallint) AS whats, count(*) AS active,
        count(*) FILTER (WHERE f.state = 1) AS scheduled, count(*) FILTER (WHERE f.state = 2) AS waiting,
        count(*) FILTER (WHERE f.state = 5) AS completed, count(*) FILTER (WHERE f.state = 6) AS failed,
        count(*) FILTER (WHERE f.state = 7) AS cancelled, count(*) FILTER (WHERE f.state = 8) AS expired,
        count(*) FILTER (WHERE f.outcome = 7) AS stalls, count(*) FILTER (WHERE f.outcome = 4) AS releases
    INTO v
    FROM (
        SELECT g.n, g.job, g.attempts, g.flags, g.keep, g.state, g.outcome,
            CASE WHEN g.outcome = 7 AND g.state > 4 THEN 7
                ELSE ('{5,6,7,8,9,12,10}'::integer[])[g.outcome] END::smallint AS kind
        FROM sorted AS g
    ) AS f;
    IF v.active = 0 THEN
        RETURN '{}';
    END IF;
    v_ended := coalesce(cardinality(v.ended), 0);
    IF v.active < cardinality(p_ids) THEN
        SELECT array_agg(p_ids[u.place] ORDER BY u.n), array_agg(p_lives[u.place] ORDER BY u.n) INTO p_ids, p_lives
        FROM unnest(v.places) WITH ORDINALITY AS u (place, n);
    END IF;
    INSERT INTO {schema}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)
    VALUES (p_queue, v.active, nextval('{schema}.event_seq'), p_now, p_ids, p_lives, v.whats, v.attempts);
    INSERT INTO {schema}.tally (
        queue, scheduled, waiting, active, completed, failed, cancelled, expired, stalls, releases
    ) VALUES (
        p_queue, v.scheduled, v.waiting, -v.active, v.completed, v.failed, v.cancelled, v.expired, v.stalls, v.releases
    );
    IF v.flags & 6 <> 0 AND v_ended > 0 THEN
        PERFORM {free_keys}(p_queue, v.ended, true);
    END IF;
    IF v.flags & 8 <> 0 AND v_ended > 0 THEN
        PERFORM {tell_dependants}(p_queue, p_name, v.ended);
    END IF;
    IF v.flags & 16 <> 0 THEN
        PERFORM {trace}(p_queue, v.jobs, v.kinds, NULL, p_now);
    END IF;
    IF v_ended = 1 AND v.active = 1 AND v.least_kept_ms = 0 THEN  -- a batch has none that goes at once
        PERFORM {drop_jobs}(p_queue, p_name, v.ended, true, p_now);
    END IF;
    PERFORM {push}(
        p_channel, p_name, v.scheduled + v.waiting > 0, NULL, NULL, CASE WHEN v_ended > 0 THEN p_ids END, p_lives
    );
    RETURN v.places;
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
