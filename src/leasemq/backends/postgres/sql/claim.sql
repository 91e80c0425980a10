-- Take up to `p_limit` waiting jobs, by priority, then place: delete them from `ready`, add them to `active`.
-- A repeat with a nonce of which a lease is active answers its leases and takes nothing.
-- In: p_now, p_channel, p_queue, p_limit, p_lease_ms, p_worker, p_incarnation, p_nonce, p_takes_suspect
-- Out: one row per lease in the order of their start, where null stands for 0, false, nothing, and for what a new
-- lease has in common with the others; then one without an id: task = why it is fewer than asked for, fence =
-- milliseconds until a job is due, lease_until_ms = until a lease can end, created_ms = when new leases end, suspect =
-- suspect_waits
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_limit integer, p_lease_ms bigint, p_worker text,
    p_incarnation text, p_nonce text, p_takes_suspect boolean
) RETURNS TABLE (
    id text, generation integer, fence bigint, task text, payload bytea, attempts integer, failures integer,
    stalls integer, max_stalls integer, keep_result_ms bigint, keep_record_ms bigint, keep_dead_ms bigint,
    created_ms bigint, lease_until_ms bigint, suspect boolean, cancel_requested boolean, checkpoint bytea,
    overrides bytea, headers bytea, incarnation text
) LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := {now_ms}(p_now);
    v_queue record;
    v_alone boolean;
    v_jobs bigint[];
    v_flags smallint;
    v_attempts integer;
    v_count integer;
    v_reason text;
    v_waits boolean := false;
BEGIN
    SELECT q.key, q.paused,
        ARRAY(SELECT a.job FROM {schema}.active AS a WHERE a.queue = q.key AND a.nonce = p_nonce) AS mine,
        EXISTS (
            SELECT FROM {schema}.ready AS r WHERE r.queue = q.key AND r.suspect
            AND (r.expires_ms IS NULL OR r.expires_ms > v_now)
        ) AS suspects,
        EXISTS (
            SELECT FROM {schema}.ready AS r
            WHERE r.queue = q.key AND r.expires_ms <= v_now AND r.expires_ms IS NOT NULL
        ) OR EXISTS (
            SELECT FROM {schema}.scheduled AS s
            WHERE s.queue = q.key AND s.expires_ms <= v_now AND s.expires_ms IS NOT NULL
        ) AS lapsed
    INTO v_queue FROM {schema}.queue AS q WHERE q.name = p_queue;
    IF cardinality(v_queue.mine) > 0 THEN
        RETURN QUERY SELECT l.id, l.generation, l.fence, l.task, l.payload, l.attempts, l.failures, l.stalls,
            l.max_stalls, l.keep_result_ms, l.keep_record_ms, l.keep_dead_ms, l.created_ms, l.lease_until_ms,
            l.suspect, l.cancel_requested, l.checkpoint, l.overrides, l.headers, l.incarnation
        FROM {leases}(v_queue.key, v_queue.mine) AS l;
        v_count := p_limit;
    ELSE
        IF v_queue.lapsed THEN
            PERFORM {expire}(v_queue.key, p_queue, p_limit, v_now, p_channel);
        END IF;
        IF v_queue.paused THEN
            v_count := 0;
            v_reason := 'paused';
        ELSE
            v_alone := coalesce(v_queue.suspects, false) AND p_takes_suspect AND p_limit > 0;
            LOOP
                SELECT array_agg(f.job), bit_or(f.flags), max(f.attempts), count(*)
                INTO v_jobs, v_flags, v_attempts, v_count
                FROM (
                    SELECT r.job, r.flags, r.attempts FROM {schema}.ready AS r
                    WHERE r.queue = v_queue.key AND r.suspect = v_alone
                    AND (r.expires_ms IS NULL OR r.expires_ms > v_now)
                    ORDER BY r.queue, r.suspect, r.rank, r.place
                    LIMIT CASE WHEN v_alone THEN 1 ELSE p_limit END FOR UPDATE SKIP LOCKED
                ) AS f;
                EXIT WHEN v_count > 0 OR NOT v_alone;
                v_alone := false;  -- somebody else is taking it
            END LOOP;
            IF v_alone THEN
                UPDATE {schema}.queue AS q SET suspect_incarnation = '', suspect_until_ms = 0
                WHERE q.key = v_queue.key;
            ELSE
                v_reason := CASE WHEN v_count < p_limit THEN 'empty' END;
                IF v_queue.suspects THEN  -- one incarnation at a time runs empty for it
                    UPDATE {schema}.queue AS q
                    SET suspect_incarnation = p_incarnation, suspect_until_ms = v_now + p_lease_ms
                    WHERE q.key = v_queue.key
                    AND (q.suspect_incarnation = p_incarnation OR q.suspect_until_ms <= v_now);
                    v_waits := FOUND;
                END IF;
            END IF;
            IF v_attempts >= 100 THEN  -- the newest 100 are kept, the one that begins included
                DELETE FROM {schema}.attempt AS t WHERE t.job = ANY(v_jobs) AND t.fence < (
                    SELECT o.fence FROM {schema}.attempt AS o WHERE o.job = t.job
                    ORDER BY o.fence DESC OFFSET 98 LIMIT 1
                );
            END IF;
        END IF;
    END IF;
    IF v_jobs IS NOT NULL THEN
        RETURN QUERY
        WITH gone AS (
            DELETE FROM {schema}.ready AS r WHERE r.job = ANY(v_jobs) RETURNING r.*
        ), taken AS MATERIALIZED (
            SELECT g.*, nextval('{schema}.place') AS claim_place, greatest(g.fence + 1, v_now * 1000) AS next_fence
            FROM (SELECT * FROM gone AS o ORDER BY o.rank, o.place) AS g
        ), started AS (
            INSERT INTO {schema}.active (
                job, place, queue, suspect, replay, flags, attempts, failures, stalls, fence, due_ms, expires_ms,
                claimed_ms, renewed_ms, lease_until_ms, nonce, worker, incarnation
            )
            SELECT t.job, t.claim_place, t.queue, t.suspect, t.flags & 32 <> 0, t.flags & ~34, t.attempts + 1,
                t.failures, t.stalls, t.next_fence, t.due_ms, t.expires_ms, v_now, v_now, v_now + p_lease_ms,
                p_nonce, p_worker, p_incarnation
            FROM taken AS t
        ), found AS MATERIALIZED (
            SELECT t.claim_place, t.next_fence, t.attempts + 1 AS attempt, t.failures, t.stalls, t.suspect, t.flags,
                t.job, j.id, j.generation, j.task, j.payload, j.max_stalls, j.keep_result_ms, j.keep_record_ms,
                j.keep_dead_ms, j.created_ms, j.overrides, j.headers
            FROM taken AS t
            CROSS JOIN LATERAL (
                SELECT * FROM {schema}.job AS k WHERE k.queue = v_queue.key AND k.key = t.job LIMIT 1
            ) AS j
            ORDER BY t.claim_place
        ), told AS (
            INSERT INTO {schema}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)
            SELECT v_queue.key, count(*), nextval('{schema}.event_seq'), v_now, array_agg(f.id),
                array_agg(f.generation), '{43}', array_agg(f.attempt)
            FROM found AS f
        )
        SELECT f.id, f.generation, f.next_fence, f.task, f.payload, f.attempt, nullif(f.failures, 0),
            nullif(f.stalls, 0), f.max_stalls, f.keep_result_ms, f.keep_record_ms, f.keep_dead_ms, f.created_ms,
            NULL::bigint, nullif(f.suspect, false), NULL::boolean,
            CASE WHEN f.flags & 1 <> 0 THEN (SELECT e.checkpoint FROM {schema}.extra AS e WHERE e.job = f.job) END,
            nullif(f.overrides, ''), nullif(f.headers, ''), NULL::text
        FROM found AS f;
        INSERT INTO {schema}.tally (queue, waiting, active) VALUES (v_queue.key, -v_count, v_count);
        IF v_flags & 2 <> 0 THEN
            PERFORM {free_keys}(v_queue.key, v_jobs, false);
        END IF;
        IF v_flags & 16 <> 0 THEN
            PERFORM {trace}(v_queue.key, v_jobs, '{4}', NULL, v_now);
        END IF;
        IF EXISTS (SELECT FROM {schema}.follower AS o WHERE o.queue = p_queue) THEN
            PERFORM {push}(p_channel, p_queue, false, NULL, NULL, NULL, NULL);
        END IF;
    END IF;
    RETURN QUERY SELECT NULL::text, NULL::integer,
        (
            SELECT greatest(0, s.due_ms - v_now) FROM {schema}.scheduled AS s
            WHERE s.queue = v_queue.key AND NOT s.blocked ORDER BY s.due_ms LIMIT 1
        ),
        v_reason, NULL::bytea, NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::bigint, NULL::bigint,
        NULL::bigint, v_now + p_lease_ms,
        CASE WHEN v_reason IS NOT NULL THEN (
            SELECT greatest(0, a.lease_until_ms - v_now) FROM {schema}.active AS a
            WHERE a.queue = v_queue.key ORDER BY a.lease_until_ms LIMIT 1
        ) END,
        v_waits, NULL::boolean, NULL::bytea, NULL::bytea, NULL::bytea, NULL::text;
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
