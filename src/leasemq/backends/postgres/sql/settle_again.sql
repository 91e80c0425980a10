-- Write the settlements after which a job waits or is scheduled again: its attempt goes into its history. The
-- active rows are locked by the caller, who deletes them. Arrays: one each, or null.
-- In: p_now, p_queue, p_keys, p_settlements, p_outcomes, p_states, p_failures, p_stalls, p_delays, p_suspects,
-- p_errors, p_reasons
-- Out: nothing
CREATE FUNCTION {self}(
    p_now bigint, p_queue integer, p_keys bigint[], p_settlements bigint[], p_outcomes smallint[],
    p_states smallint[], p_failures integer[], p_stalls integer[], p_delays bigint[], p_suspects boolean[],
    p_errors bytea[], p_reasons text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.attempt (
        job, fence, number, outcome, replay, claimed_ms, renewed_ms, ended_ms, settled_by, worker, incarnation, error
    )
    SELECT u.key, a.fence, a.attempts, u.outcome, a.replay, a.claimed_ms, a.renewed_ms, p_now, u.settlement,
        a.worker, a.incarnation, u.error
    FROM unnest(p_keys, p_states, p_outcomes, p_settlements, p_errors) AS u (key, state, outcome, settlement, error)
    CROSS JOIN LATERAL (SELECT f.* FROM {schema}.active AS f WHERE f.job = u.key LIMIT 1) AS a
    WHERE u.state < 3;
    INSERT INTO {schema}.extra (job, error, reason)
    SELECT u.key, u.error, u.reason
    FROM unnest(p_keys, p_states, p_errors, p_reasons) AS u (key, state, error, reason)
    CROSS JOIN LATERAL (SELECT f.flags FROM {schema}.active AS f WHERE f.job = u.key LIMIT 1) AS a
    WHERE u.state < 3 AND (u.error IS NOT NULL OR u.reason IS NOT NULL OR a.flags & 1 <> 0)
    ON CONFLICT (job) DO UPDATE SET error = coalesce(excluded.error, extra.error), reason = excluded.reason;
    INSERT INTO {schema}.ready (
        job, place, queue, rank, suspect, flags, attempts, failures, stalls, fence, since_ms, due_ms, expires_ms
    )
    SELECT u.key, nextval('{schema}.place'), p_queue, -j.priority, u.suspect, a.flags | 1, a.attempts, u.failures,
        u.stalls, a.fence, p_now, p_now + u.delay, a.expires_ms
    FROM unnest(p_keys, p_states, p_suspects, p_failures, p_stalls, p_delays)
        AS u (key, state, suspect, failures, stalls, delay)
    CROSS JOIN LATERAL (SELECT f.* FROM {schema}.active AS f WHERE f.job = u.key LIMIT 1) AS a
    CROSS JOIN LATERAL (
        SELECT k.priority FROM {schema}.job AS k WHERE k.queue = p_queue AND k.key = u.key LIMIT 1
    ) AS j
    WHERE u.state = 2;
    INSERT INTO {schema}.scheduled (
        job, place, queue, blocked, suspect, flags, attempts, failures, stalls, fence, due_ms, expires_ms
    )
    SELECT u.key, nextval('{schema}.place'), p_queue, false, u.suspect, a.flags | 1, a.attempts, u.failures,
        u.stalls, a.fence, p_now + u.delay, a.expires_ms
    FROM unnest(p_keys, p_states, p_suspects, p_failures, p_stalls, p_delays)
        AS u (key, state, suspect, failures, stalls, delay)
    CROSS JOIN LATERAL (SELECT f.* FROM {schema}.active AS f WHERE f.job = u.key LIMIT 1) AS a
    WHERE u.state = 1;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
