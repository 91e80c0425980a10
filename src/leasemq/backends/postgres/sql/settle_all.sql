-- Write the settlements that apply: the end or the next wait of each job, its attempt, the counts, one event row, and
-- what hangs on an end. An active row is compared where it is deleted. Arrays: one element for all, one each, or null
-- for nulls; the ids are one each.
-- In: p_now, p_channel, p_queue, p_name, p_keys (one each; null: not found), p_ids, p_lives, p_settlements, p_fences,
-- p_nonces, p_outcomes, p_states, p_failures, p_stalls, p_sweeps, p_seens, p_delays, p_suspects, p_results, p_errors,
-- p_reasons, p_keeps, p_result_keeps
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
    v_stays boolean := 1 = ANY(p_states) OR 2 = ANY(p_states);
    v_each bigint := 1;  -- for how many jobs an element of v.states and v.outcomes stands
    v_ended bigint[];
    v_kinds smallint[];
BEGIN
    -- Locks in the order of the keys, as everybody does.
    WITH asked AS MATERIALIZED (
        SELECT u.n, u.key, u.settlement, coalesce(u.fence, p_fences[1]) AS fence,
            coalesce(u.nonce, p_nonces[1]) AS nonce, coalesce(u.outcome, p_outcomes[1]) AS outcome,
            coalesce(u.state, p_states[1]) AS state,
            coalesce(u.failures, p_failures[1]) AS failures, coalesce(u.stalls, p_stalls[1]) AS stalls,
            coalesce(u.sweep, p_sweeps[1]) AS sweep, coalesce(u.seen, p_seens[1]) AS seen,
            coalesce(u.suspect, p_suspects[1]) AS suspect,
            CASE WHEN cardinality(p_results) = 1 THEN p_results[1] ELSE u.result END AS result,
            CASE WHEN cardinality(p_errors) = 1 THEN p_errors[1] ELSE u.error END AS error,
            CASE WHEN cardinality(p_reasons) = 1 THEN p_reasons[1] ELSE u.reason END AS reason,
            coalesce(CASE WHEN cardinality(p_keeps) = 1 THEN p_keeps[1] ELSE u.keep END, 0) AS keep,
            CASE WHEN cardinality(p_result_keeps) = 1 THEN p_result_keeps[1] ELSE u.result_keep END AS result_keep
        FROM unnest(
            p_keys, p_settlements, p_fences, p_nonces, p_outcomes, p_states, p_failures, p_stalls, p_sweeps, p_seens,
            p_suspects, p_results, p_errors, p_reasons, p_keeps, p_result_keeps
        ) WITH ORDINALITY AS u (
            key, settlement, fence, nonce, outcome, state, failures, stalls, sweep, seen, suspect, result, error,
            reason, keep, result_keep, n
        )
        WHERE u.key IS NOT NULL ORDER BY u.key
    ), gone AS (
        DELETE FROM {schema}.active AS f USING asked AS u
        WHERE f.job = u.key AND f.fence = u.fence AND f.nonce = u.nonce
        AND (NOT u.sweep OR f.lease_until_ms <= p_now) AND (u.seen OR NOT f.cancel_requested)
        AND (f.flags & 1 = 0 OR NOT EXISTS (
            SELECT FROM {schema}.attempt AS t WHERE t.job = u.key AND t.settled_by = u.settlement
        ))
        RETURNING u.n, u.settlement, u.outcome, u.state, u.failures, u.stalls, u.suspect, u.result, u.error, u.reason,
            u.keep, u.result_keep, f.job, f.fence, f.attempts, f.cancel_requested, f.replay, f.flags, f.due_ms,
            f.expires_ms, f.claimed_ms, f.renewed_ms, f.worker, f.incarnation, CASE WHEN v_stays THEN f END AS row
    ), sorted AS MATERIALIZED (
        SELECT * FROM gone AS o ORDER BY o.n
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
    )
    SELECT array_agg(g.n::integer) AS places, array_agg(g.job) AS jobs, array_agg(g.attempts) AS attempts,
        array_agg(g.state) AS states, array_agg(g.outcome) AS outcomes, bit_or(g.flags) AS flags,
        min(g.keep) AS least_kept_ms, min(10 * g.outcome + g.state) = max(10 * g.outcome + g.state) AS is_alike,
        array_agg(g.row) FILTER (WHERE v_stays) AS rows
    INTO v FROM sorted AS g;
    IF v.jobs IS NULL THEN
        RETURN '{}';
    END IF;
    v_ended := v.jobs;
    IF v_stays THEN
        v_ended := ARRAY(
            SELECT u.job FROM unnest(v.jobs, v.states) WITH ORDINALITY AS u (job, state, n)
            WHERE u.state > 4 ORDER BY u.n
        );
        p_settlements := {spread}(p_settlements, cardinality(p_ids));
        p_failures := {spread}(p_failures, cardinality(p_ids));
        p_stalls := {spread}(p_stalls, cardinality(p_ids));
        p_delays := {spread}(p_delays, cardinality(p_ids));
        p_suspects := {spread}(p_suspects, cardinality(p_ids));
        p_errors := {spread}(p_errors, cardinality(p_ids));
        p_reasons := {spread}(p_reasons, cardinality(p_ids));
        WITH stayed AS MATERIALIZED (
            SELECT f.job, f.fence, f.attempts, f.replay, f.flags, f.expires_ms, f.claimed_ms, f.renewed_ms, f.worker,
                f.incarnation, v.states[f.ordinality] AS state, v.outcomes[f.ordinality] AS outcome,
                p_settlements[o.place] AS settlement, p_failures[o.place] AS failures, p_stalls[o.place] AS stalls,
                p_delays[o.place] AS delay, p_suspects[o.place] AS suspect, p_errors[o.place] AS error,
                p_reasons[o.place] AS reason
            FROM unnest(v.rows) WITH ORDINALITY AS f
            CROSS JOIN LATERAL (SELECT v.places[f.ordinality] AS place) AS o
            WHERE v.states[f.ordinality] < 3 ORDER BY f.ordinality
        ), past AS (
            INSERT INTO {schema}.attempt (
                job, fence, number, outcome, replay, claimed_ms, renewed_ms, ended_ms, settled_by, worker, incarnation,
                error
            )
            SELECT g.job, g.fence, g.attempts, g.outcome, g.replay, g.claimed_ms, g.renewed_ms, p_now, g.settlement,
                g.worker, g.incarnation, g.error
            FROM stayed AS g
        ), known AS (
            INSERT INTO {schema}.extra (job, error, reason)
            SELECT g.job, g.error, g.reason FROM stayed AS g
            WHERE g.error IS NOT NULL OR g.reason IS NOT NULL OR g.flags & 1 <> 0
            ON CONFLICT (job) DO UPDATE SET error = coalesce(excluded.error, extra.error), reason = excluded.reason
        ), waiting AS (
            INSERT INTO {schema}.ready (
                job, place, queue, rank, suspect, flags, attempts, failures, stalls, fence, since_ms, due_ms, expires_ms
            )
            SELECT g.job, nextval('{schema}.place'), p_queue, -j.priority, g.suspect, g.flags | 1, g.attempts,
                g.failures, g.stalls, g.fence, p_now, p_now + g.delay, g.expires_ms
            FROM stayed AS g
            CROSS JOIN LATERAL (
                SELECT k.priority FROM {schema}.job AS k WHERE k.queue = p_queue AND k.key = g.job LIMIT 1
            ) AS j
            WHERE g.state = 2
        )
        INSERT INTO {schema}.scheduled (
            job, place, queue, blocked, suspect, flags, attempts, failures, stalls, fence, due_ms, expires_ms
        )
        SELECT g.job, nextval('{schema}.place'), p_queue, false, g.suspect, g.flags | 1, g.attempts, g.failures,
            g.stalls, g.fence, p_now + g.delay, g.expires_ms
        FROM stayed AS g WHERE g.state = 1;
    END IF;
    IF cardinality(v.jobs) < cardinality(p_ids) THEN
        SELECT array_agg(p_ids[u.place] ORDER BY u.n), array_agg(coalesce(p_lives[u.place], p_lives[1]) ORDER BY u.n)
        INTO p_ids, p_lives FROM unnest(v.places) WITH ORDINALITY AS u (place, n);
    END IF;
    IF v.is_alike THEN
        v_each := cardinality(v.jobs);
        v.states := v.states[1:1];
        v.outcomes := v.outcomes[1:1];
    END IF;
    WITH told AS MATERIALIZED (
        SELECT array_agg((10 * u.kind + u.state)::smallint ORDER BY u.n) AS whats,
            array_agg(u.kind::smallint ORDER BY u.n) AS kinds,
            v_each * count(*) FILTER (WHERE u.state = 1) AS scheduled,
            v_each * count(*) FILTER (WHERE u.state = 2) AS waiting,
            v_each * count(*) FILTER (WHERE u.state = 5) AS completed,
            v_each * count(*) FILTER (WHERE u.state = 6) AS failed,
            v_each * count(*) FILTER (WHERE u.state = 7) AS cancelled,
            v_each * count(*) FILTER (WHERE u.state = 8) AS expired,
            v_each * count(*) FILTER (WHERE u.outcome = 7) AS stalls,
            v_each * count(*) FILTER (WHERE u.outcome = 4) AS releases
        FROM (
            SELECT o.state, o.outcome, o.n, CASE WHEN o.outcome = 7 AND o.state > 4 THEN 7
                ELSE ('{5,6,7,8,9,12,10}'::integer[])[o.outcome] END AS kind
            FROM unnest(v.states, v.outcomes) WITH ORDINALITY AS o (state, outcome, n)
        ) AS u
    ), shown AS (
        INSERT INTO {schema}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)
        SELECT p_queue, cardinality(p_ids), nextval('{schema}.event_seq'), p_now, p_ids, p_lives, t.whats, v.attempts
        FROM told AS t
    ), counted AS (
        INSERT INTO {schema}.tally (
            queue, scheduled, waiting, active, completed, failed, cancelled, expired, stalls, releases
        )
        SELECT p_queue, t.scheduled, t.waiting, -cardinality(p_ids), t.completed, t.failed, t.cancelled, t.expired,
            t.stalls, t.releases
        FROM told AS t
    )
    SELECT t.kinds INTO v_kinds FROM told AS t;
    IF v.flags & 6 <> 0 AND cardinality(v_ended) > 0 THEN
        PERFORM {free_keys}(p_queue, v_ended, true);
    END IF;
    IF v.flags & 8 <> 0 AND cardinality(v_ended) > 0 THEN
        PERFORM {tell_dependants}(p_queue, p_name, v_ended);
    END IF;
    IF v.flags & 16 <> 0 THEN
        PERFORM {trace}(p_queue, v.jobs, v_kinds, NULL, p_now);
    END IF;
    IF cardinality(v_ended) = 1 AND cardinality(v.jobs) = 1 AND v.least_kept_ms = 0 THEN  -- no batch has one such
        PERFORM {drop_jobs}(p_queue, p_name, v_ended, true, p_now);
    END IF;
    IF v.states && '{1,2}'::smallint[] OR EXISTS (SELECT FROM {schema}.follower AS o WHERE o.queue = p_name)
        OR EXISTS (SELECT FROM {schema}.interest AS i WHERE i.queue = p_name) THEN
        PERFORM {push}(
            p_channel, p_name, v.states && '{1,2}'::smallint[], NULL, NULL,
            CASE WHEN cardinality(v_ended) > 0 THEN p_ids END, p_lives
        );
    END IF;
    RETURN v.places;
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
