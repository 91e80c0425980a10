-- Put a job that ended back in line, with fresh counters and a fresh ttl; its last attempt goes into its history,
-- and parents that it still waits for are told of it anew. It is locked by the caller, and its key is taken.
-- In: p_queue, p_name (of the queue), p_key (of the job), p_request, p_now
-- Out: the code of its new state: waiting or blocked
CREATE FUNCTION {self}(p_queue integer, p_name text, p_key bigint, p_request bigint, p_now bigint)
RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
    v_job {schema}.job;
    v_end {schema}.ended;
    v_flags smallint;
    v_expires bigint;
    v_blocked boolean := EXISTS (SELECT FROM {schema}.parent WHERE job = p_key);
BEGIN
    SELECT * INTO STRICT v_job FROM {schema}.job WHERE queue = p_queue AND key = p_key;
    DELETE FROM {schema}.ended WHERE job = p_key RETURNING * INTO STRICT v_end;
    IF v_end.claimed_ms IS NOT NULL THEN
        INSERT INTO {schema}.attempt (
            job, fence, number, outcome, replay, claimed_ms, renewed_ms, ended_ms, settled_by, worker, incarnation,
            error
        ) VALUES (
            p_key, v_end.fence, v_end.attempts, v_end.outcome, v_end.replay, v_end.claimed_ms, v_end.renewed_ms,
            v_end.ended_ms, v_end.settled_by, v_end.worker, v_end.incarnation, v_end.error
        );
        DELETE FROM {schema}.attempt WHERE job = p_key AND fence <= (
            SELECT o.fence FROM {schema}.attempt AS o WHERE o.job = p_key ORDER BY o.fence DESC OFFSET 100 LIMIT 1
        );
    END IF;
    INSERT INTO {schema}.extra AS x (job, replays, replay_request) VALUES (p_key, 1, p_request)
    ON CONFLICT (job) DO UPDATE SET
        replays = x.replays + 1, replay_request = p_request, reason = NULL, error = NULL, progress = NULL;
    v_flags := v_end.flags & 24 | 33 | CASE
        WHEN v_job.unique_key IS NULL OR v_job.unique_mode = 'throttle' THEN 0
        WHEN v_job.unique_until = 'start' THEN 2 ELSE 4 END;
    v_expires := p_now + v_job.ttl_ms;
    IF v_blocked THEN
        INSERT INTO {schema}.scheduled (
            job, place, queue, blocked, suspect, flags, attempts, failures, stalls, fence, due_ms, expires_ms
        ) VALUES (
            p_key, nextval('{schema}.place'), p_queue, true, false, v_flags, 0, 0, 0, v_end.fence, p_now, v_expires
        );
        INSERT INTO {schema}.outbox (
            queue, kind, child_queue, child_id, child_generation, parent_queue, parent_id, parent_generation, on_failure
        )
        SELECT p_queue, 'attach', p_name, v_job.id, v_job.generation, p.queue, p.id, 0, p.on_failure
        FROM {schema}.parent AS p WHERE p.job = p_key ORDER BY p.number;
    ELSE
        INSERT INTO {schema}.ready (
            job, place, queue, rank, suspect, flags, attempts, failures, stalls, fence, since_ms, due_ms, expires_ms
        ) VALUES (
            p_key, nextval('{schema}.place'), p_queue, -v_job.priority, false, v_flags, 0, 0, 0, v_end.fence, p_now,
            p_now, v_expires
        );
    END IF;
    INSERT INTO {schema}.tally (queue, waiting, blocked, failed, cancelled, expired)
    VALUES (
        p_queue, CASE WHEN v_blocked THEN 0 ELSE 1 END, CASE WHEN v_blocked THEN 1 ELSE 0 END,
        CASE WHEN v_end.state = 6 THEN -1 ELSE 0 END, CASE WHEN v_end.state = 7 THEN -1 ELSE 0 END,
        CASE WHEN v_end.state = 8 THEN -1 ELSE 0 END
    );
    RETURN CASE WHEN v_blocked THEN 4 ELSE 2 END;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
