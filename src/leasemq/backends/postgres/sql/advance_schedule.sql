-- Store a tick's jobs and move its schedule's cursor, in one step; nothing, if the schedule is paused or gone, or
-- its cursor has moved.
-- In: p_now, p_channel, p_name, p_seen_ms, p_new_ms, p_ids, p_tasks, p_payloads, p_priorities, p_delays, p_due_ats,
-- p_ttls, p_max_stalls, p_keep_results, p_keep_records, p_keep_deads, p_overrides, p_headers, p_requests, p_trails,
-- p_creator_queues, p_creator_ids, p_creator_lives, p_reuses (bit n: state n may be replaced), p_unique_keys,
-- p_unique_modes, p_unique_untils, p_unique_windows, p_at_mosts, p_parent_places (which job of the batch, from 1),
-- p_parent_queues, p_parent_ids, p_parent_policies
-- Out: the schedule's queue, then as enqueue.sql, null without jobs; no row: nothing was done
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_name text, p_seen_ms bigint, p_new_ms bigint, p_ids text[], p_tasks text[],
    p_payloads bytea[], p_priorities smallint[], p_delays bigint[], p_due_ats bigint[], p_ttls bigint[],
    p_max_stalls integer[], p_keep_results bigint[], p_keep_records bigint[], p_keep_deads bigint[],
    p_overrides bytea[], p_headers bytea[], p_requests bigint[], p_trails integer[], p_creator_queues text[],
    p_creator_ids text[], p_creator_lives integer[], p_reuses integer[], p_unique_keys text[],
    p_unique_modes text[], p_unique_untils text[], p_unique_windows bigint[], p_at_mosts bigint[],
    p_parent_places integer[], p_parent_queues text[], p_parent_ids text[], p_parent_policies text[]
) RETURNS TABLE (
    queue text, acceptances smallint[], ids text[], generations integer[], states smallint[], sames boolean[]
) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {schema}.schedule AS s SET cursor_ms = p_new_ms
    WHERE s.name = p_name AND NOT s.paused AND s.cursor_ms = p_seen_ms RETURNING s.queue INTO queue;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF cardinality(p_ids) > 0 THEN
        SELECT e.acceptances, e.ids, e.generations, e.states, e.sames
        INTO STRICT acceptances, ids, generations, states, sames
        FROM {enqueue}(
            p_now, p_channel, queue, p_ids, p_tasks, p_payloads, p_priorities, p_delays, p_due_ats, p_ttls,
            p_max_stalls, p_keep_results, p_keep_records, p_keep_deads, p_overrides, p_headers, p_requests,
            p_trails, p_creator_queues, p_creator_ids, p_creator_lives, p_reuses, p_unique_keys, p_unique_modes,
            p_unique_untils, p_unique_windows, p_at_mosts, p_parent_places, p_parent_queues, p_parent_ids,
            p_parent_policies
        ) AS e;
    END IF;
    RETURN NEXT;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
