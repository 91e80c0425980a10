-- Answer how the job of an id stands, or the one that it was merged into: all in one snapshot, which a stable
-- function has (https://www.postgresql.org/docs/current/xfunc-volatility.html).
-- In: p_now, p_queue, p_id, p_ahead_limit, p_alone_limit
-- Out: as records.sql, and: the time, id and generation of the job that the id was merged into, whether the queue
-- is paused, how many a claim takes before it, whether a suspect waits, for whom it is kept and until when, who runs
-- one, and id and generation of the key's holder; no row: there is no record
CREATE FUNCTION {self}(p_now bigint, p_queue text, p_id text, p_ahead_limit integer, p_alone_limit integer)
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
    parent_queues text[], parent_ids text[], parent_policies text[],
    now_ms bigint, merged_id text, merged_life integer, paused boolean, ahead bigint, suspect_waits boolean,
    reserved_for text, reserved_until_ms bigint, alone text[], holder_id text, holder_life integer
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_now bigint := {now_ms}(p_now);
    v_queue {schema}.queue;
    v_own bigint;
    v_merged record;
    v_ready {schema}.ready;
    v_ahead bigint := 0;
    v_holder record;
BEGIN
    SELECT q.* INTO v_queue FROM {schema}.queue AS q WHERE q.name = p_queue;
    SELECT j.key INTO v_own FROM {schema}.job AS j WHERE j.queue = v_queue.key AND j.id = p_id;
    SELECT j.key, j.id, j.generation INTO v_merged
    FROM (SELECT x.job FROM {schema}.alias AS x WHERE x.queue = v_queue.key AND x.id = p_id LIMIT 1) AS a
    CROSS JOIN LATERAL (SELECT * FROM {schema}.job AS k WHERE k.queue = v_queue.key AND k.key = a.job LIMIT 1) AS j;
    v_own := coalesce(v_own, v_merged.key);
    IF v_own IS NULL THEN
        RETURN;
    END IF;
    SELECT r.* INTO v_ready FROM {schema}.ready AS r WHERE r.job = v_own;
    IF FOUND THEN
        SELECT count(*) INTO v_ahead FROM (
            SELECT FROM {schema}.ready AS r
            WHERE r.queue = v_queue.key AND r.suspect = v_ready.suspect
            AND (r.rank, r.place) < (v_ready.rank, v_ready.place) AND (r.expires_ms IS NULL OR r.expires_ms > v_now)
            LIMIT p_ahead_limit
        ) AS f;
    END IF;
    SELECT h.id, h.generation INTO v_holder
    FROM (SELECT k.unique_key FROM {schema}.job AS k WHERE k.queue = v_queue.key AND k.key = v_own LIMIT 1) AS j
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.hold AS o
        WHERE o.queue = v_queue.key AND o.key = j.unique_key AND (o.until_ms IS NULL OR o.until_ms > v_now) LIMIT 1
    ) AS h;
    RETURN QUERY
    SELECT r.*, v_now, v_merged.id, v_merged.generation, v_queue.paused, v_ahead,
        EXISTS (
            SELECT FROM {schema}.ready AS f WHERE f.queue = v_queue.key AND f.suspect
            AND (f.expires_ms IS NULL OR f.expires_ms > v_now)
        ),
        v_queue.suspect_incarnation, v_queue.suspect_until_ms,
        ARRAY(
            SELECT DISTINCT a.incarnation FROM {schema}.active AS a WHERE a.queue = v_queue.key AND a.suspect
            ORDER BY 1 LIMIT p_alone_limit
        ),
        v_holder.id, v_holder.generation
    FROM {records}(v_queue.key, ARRAY[v_own], v_now) AS r;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
