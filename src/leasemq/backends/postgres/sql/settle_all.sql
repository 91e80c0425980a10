-- Write settlements that were compared and apply: the end or the next wait of each job, its attempt, the counts,
-- one event row, and what hangs on an end. The active rows are locked by the caller. Arrays: one each, or null.
-- In: p_now, p_channel, p_queue, p_name, p_keys, p_ids, p_lives, p_attempts, p_settlements, p_outcomes, p_states,
-- p_failures, p_stalls, p_delays, p_suspects, p_results, p_errors, p_reasons, p_keeps, p_result_keeps, p_flags (of all, or-ed)
-- Out: nothing
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue integer, p_name text, p_keys bigint[], p_ids text[], p_lives integer[],
    p_attempts integer[], p_settlements bigint[], p_outcomes smallint[], p_states smallint[], p_failures integer[], p_stalls integer[],
    p_delays bigint[], p_suspects boolean[], p_results bytea[], p_errors bytea[], p_reasons text[], p_keeps bigint[],
    p_result_keeps bigint[], p_flags smallint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v record;
    v_ended bigint[];
    v_woken boolean;
BEGIN
    SELECT count(*) FILTER (WHERE u.state = 1) AS scheduled, count(*) FILTER (WHERE u.state = 2) AS waiting,
        count(*) FILTER (WHERE u.state = 5) AS completed, count(*) FILTER (WHERE u.state = 6) AS failed,
        count(*) FILTER (WHERE u.state = 7) AS cancelled, count(*) FILTER (WHERE u.state = 8) AS expired,
        count(*) FILTER (WHERE u.outcome = 7) AS stalls, count(*) FILTER (WHERE u.outcome = 4) AS releases,
        count(*) AS active,
        array_agg((10 * CASE WHEN u.outcome = 7 AND u.state > 4 THEN 7
            ELSE ('{5,6,7,8,9,12,10}'::integer[])[u.outcome] END + u.state)::smallint) AS whats,
        array_agg((CASE WHEN u.outcome = 7 AND u.state > 4 THEN 7
            ELSE ('{5,6,7,8,9,12,10}'::integer[])[u.outcome] END)::smallint) AS kinds
    INTO v FROM unnest(p_outcomes, p_states) AS u (outcome, state);
    v_woken := v.scheduled + v.waiting > 0;
    IF v.scheduled + v.waiting < v.active THEN
        INSERT INTO {schema}.ended (
            job, place, queue, state, outcome, suspect, cancel_requested, replay, flags, attempts, failures, stalls,
            fence, due_ms, expires_ms, ended_ms, keep_until_ms, prune_ms, result_until_ms, claimed_ms, renewed_ms,
            settled_by, worker, incarnation, reason, error, result
        )
        SELECT u.key, nextval('{schema}.place'), p_queue, u.state, u.outcome, u.suspect, a.cancel_requested, a.replay,
            a.flags & ~6, a.attempts, u.failures, u.stalls, a.fence, a.due_ms, a.expires_ms, p_now,
            p_now + coalesce(u.keep, 0),
            p_now + CASE WHEN u.result IS NULL THEN coalesce(u.keep, 0)
                ELSE least(coalesce(u.keep, 0), u.result_keep) END,
            p_now + u.result_keep, a.claimed_ms, a.renewed_ms, u.settlement, a.worker, a.incarnation, u.reason,
            u.error, u.result
        FROM unnest(
            p_keys, p_states, p_outcomes, p_suspects, p_failures, p_stalls, p_keeps, p_result_keeps, p_settlements,
            p_reasons, p_errors, p_results
        ) AS u (
            key, state, outcome, suspect, failures, stalls, keep, result_keep, settlement, reason, error, result
        )
        CROSS JOIN LATERAL (SELECT f.* FROM {schema}.active AS f WHERE f.job = u.key LIMIT 1) AS a
        WHERE u.state > 4;
    END IF;
    IF v_woken THEN
        PERFORM {settle_again}(
            p_now, p_queue, p_keys, p_settlements, p_outcomes, p_states, p_failures, p_stalls, p_delays, p_suspects,
            p_errors, p_reasons
        );
    END IF;
    DELETE FROM {schema}.active AS a WHERE a.job = ANY(p_keys);
    INSERT INTO {schema}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)
    VALUES (p_queue, cardinality(p_keys), nextval('{schema}.event_seq'), p_now, p_ids, p_lives, v.whats, p_attempts);
    INSERT INTO {schema}.tally (
        queue, scheduled, waiting, active, completed, failed, cancelled, expired, stalls, releases
    ) VALUES (
        p_queue, v.scheduled, v.waiting, -v.active, v.completed, v.failed, v.cancelled, v.expired, v.stalls, v.releases
    );
    v_ended := p_keys;
    IF v_woken THEN
        v_ended := ARRAY(SELECT u.key FROM unnest(p_keys, p_states) AS u (key, state) WHERE u.state > 4);
    END IF;
    IF p_flags & 6 <> 0 AND cardinality(v_ended) > 0 THEN
        PERFORM {free_keys}(p_queue, v_ended, true);
    END IF;
    IF p_flags & 8 <> 0 AND cardinality(v_ended) > 0 THEN
        PERFORM {tell_dependants}(p_queue, p_name, v_ended);
    END IF;
    IF p_flags & 16 <> 0 THEN
        PERFORM {trace}(p_queue, p_keys, v.kinds, NULL, p_now);
    END IF;
    IF cardinality(v_ended) = 1 AND cardinality(p_keys) = 1 AND coalesce(p_keeps[1], 0) = 0 THEN  -- a batch has none
        PERFORM {drop_jobs}(p_queue, p_name, v_ended, true, p_now);
    END IF;
    PERFORM {push}(
        p_channel, p_name, v_woken, NULL, NULL, CASE WHEN cardinality(v_ended) > 0 THEN p_ids END, p_lives
    );
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
