-- Answer jobs that match, by acceptance, up to a page of values and one beyond it.
-- In: p_now, p_queue, p_past, p_oldest_first, p_states, p_task, p_prefix, p_reason, p_newer_ms, p_older_ms (each as
-- find_keys.sql), p_limit, p_bytes
-- Out: as records.sql, in no order, each with: how many match (up to one beyond the limit), the last key looked at,
-- whether that was all, and the time; a row without a key, if none matches
CREATE FUNCTION {self}(
    p_now bigint, p_queue text, p_past bigint, p_oldest_first boolean, p_states smallint[], p_task text,
    p_prefix text, p_reason text, p_newer_ms bigint, p_older_ms bigint, p_limit integer, p_bytes bigint
) RETURNS TABLE (
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
    matching integer, walked bigint, is_end boolean, now_ms bigint
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_now bigint := {now_ms}(p_now);
    v record;
BEGIN
    SELECT k.* INTO v FROM {find_keys}(
        v_queue, v_now, p_past, p_oldest_first, p_states, p_task, p_prefix, p_reason, p_newer_ms, p_older_ms, p_limit + 1
    ) AS k;
    RETURN QUERY
    SELECT r.*, cardinality(v.keys), v.walked, v.is_end, v_now
    FROM (SELECT) AS always
    LEFT JOIN LATERAL {records}(
        v_queue, {first_bytes}(v_queue, v.keys[1:p_limit], v_now, p_bytes), v_now
    ) AS r ON true;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
