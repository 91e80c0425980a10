-- Fold the counts of a queue, and forget its events that are too old or too many, as prune does last.
-- In: p_now, p_queue, p_event_age_ms, p_event_limit
-- Out: whether there is more of it to do at once
CREATE FUNCTION {self}(p_now bigint, p_queue text, p_event_age_ms bigint, p_event_limit bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_has_more boolean;
BEGIN
    v_has_more := {fold}(v_queue, 50000);
    -- Last, since readers of the feed wait for it.
    RETURN {trim_events}(v_queue, {now_ms}(p_now) - p_event_age_ms, p_event_limit, 50000) OR v_has_more;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan;
