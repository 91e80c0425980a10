-- Expire up to `p_limit` jobs past their ttl, then make up to `p_limit` due ones waiting, by due time.
-- In: p_now, p_channel, p_queue, p_limit
-- Out: how many became waiting, how many expired, milliseconds until the next is due
CREATE FUNCTION {self}(p_now bigint, p_channel text, p_queue text, p_limit integer)
RETURNS TABLE (promoted integer, expired integer, next_due_in_ms bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := {now_ms}(p_now);
    v_queue integer := {queue_key}(p_queue);
    v_keys bigint[];
BEGIN
    expired := {expire}(v_queue, p_queue, p_limit, v_now, p_channel);
    promoted := 0;
    SELECT array_agg(f.job ORDER BY f.due_ms, f.place) INTO v_keys
    FROM (
        SELECT s.job, s.due_ms, s.place FROM {schema}.scheduled AS s
        WHERE s.queue = v_queue AND NOT s.blocked AND s.due_ms <= v_now
        ORDER BY s.due_ms, s.place LIMIT greatest(p_limit, 0) FOR UPDATE SKIP LOCKED
    ) AS f;
    IF v_keys IS NOT NULL THEN
        promoted := {place_jobs}(v_queue, v_keys, '{2}', NULL, 2::smallint, v_now);
        PERFORM {push}(p_channel, p_queue, true, NULL, NULL, NULL, NULL);
    END IF;
    SELECT greatest(0, s.due_ms - v_now) INTO next_due_in_ms FROM {schema}.scheduled AS s
    WHERE s.queue = v_queue AND NOT s.blocked ORDER BY s.due_ms LIMIT 1;
    RETURN NEXT;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
