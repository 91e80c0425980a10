-- Answer the records of these ids.
-- In: p_now, p_queue, p_ids
-- Out: as records.sql
CREATE FUNCTION {self}(p_now bigint, p_queue text, p_ids text[])
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
DECLARE
    v_queue integer := {queue_key}(p_queue);
BEGIN
    RETURN QUERY SELECT r.* FROM {records}(v_queue, ARRAY(
        SELECT j.key FROM {schema}.job AS j WHERE j.queue = v_queue AND j.id = ANY(p_ids)
    ), {now_ms}(p_now)) AS r;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
