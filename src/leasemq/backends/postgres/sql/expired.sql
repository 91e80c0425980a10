-- Answer up to `p_limit` leases past their deadline, oldest first.
-- In: p_now, p_queue, p_limit
-- Out: as leases.sql
CREATE FUNCTION {self}(p_now bigint, p_queue text, p_limit integer)
RETURNS TABLE (
    id text, generation integer, fence bigint, nonce text, task text, payload bytea, attempts integer,
    failures integer, stalls integer, max_stalls integer, keep_result_ms bigint, keep_record_ms bigint,
    keep_dead_ms bigint, created_ms bigint, lease_until_ms bigint, incarnation text, suspect boolean,
    cancel_requested boolean, checkpoint bytea, overrides bytea, headers bytea
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_now bigint := {now_ms}(p_now);
BEGIN
    RETURN QUERY
    SELECT l.id, l.generation, l.fence, l.nonce, l.task, l.payload, l.attempts, l.failures, l.stalls, l.max_stalls,
        l.keep_result_ms, l.keep_record_ms, l.keep_dead_ms, l.created_ms, l.lease_until_ms, l.incarnation, l.suspect,
        l.cancel_requested, l.checkpoint, l.overrides, l.headers
    FROM {leases}(v_queue, ARRAY(
        SELECT a.job FROM {schema}.active AS a WHERE a.queue = v_queue AND a.lease_until_ms <= v_now
        ORDER BY a.lease_until_ms, a.place LIMIT greatest(p_limit, 0)
    )) WITH ORDINALITY AS l
    ORDER BY l.lease_until_ms, l.ordinality;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
