-- Answer the active leases of one life of a worker, oldest first.
-- In: p_queue, p_incarnation
-- Out: as leases.sql
CREATE FUNCTION {self}(p_queue text, p_incarnation text)
RETURNS TABLE (
    id text, generation integer, fence bigint, nonce text, task text, payload bytea, attempts integer,
    failures integer, stalls integer, max_stalls integer, keep_result_ms bigint, keep_record_ms bigint,
    keep_dead_ms bigint, created_ms bigint, lease_until_ms bigint, incarnation text, suspect boolean,
    cancel_requested boolean, checkpoint bytea, overrides bytea, headers bytea
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
BEGIN
    RETURN QUERY SELECT * FROM {leases}(v_queue, ARRAY(
        SELECT a.job FROM {schema}.active AS a WHERE a.queue = v_queue AND a.incarnation = p_incarnation
    ));
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
