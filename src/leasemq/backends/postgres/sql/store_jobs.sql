-- Store jobs that nothing stands in the way of, but for an id that is known by now: its place is answered.
-- Arrays: one element for all, one each, or null for nulls; the ids are one each.
-- In: p_now, p_queue, p_name, p_ids, p_lives, p_fences (the last of each id's earlier life), p_tasks, p_payloads,
-- p_priorities, p_dues, p_states, p_ttls, p_max_stalls, p_keep_results, p_keep_records, p_keep_deads, p_overrides,
-- p_headers, p_requests, p_trails, p_creator_queues, p_creator_ids, p_creator_lives, p_unique_keys, p_unique_modes,
-- p_unique_untils, p_unique_windows, p_parent_places (which job of the batch, from 1), p_parent_queues, p_parent_ids,
-- p_parent_policies
-- Out: their keys; null where the id is known
CREATE FUNCTION {self}(
    p_now bigint, p_queue integer, p_name text, p_ids text[], p_lives integer[], p_fences bigint[], p_tasks text[],
    p_payloads bytea[], p_priorities smallint[], p_dues bigint[], p_states smallint[], p_ttls bigint[],
    p_max_stalls integer[], p_keep_results bigint[], p_keep_records bigint[], p_keep_deads bigint[],
    p_overrides bytea[], p_headers bytea[], p_requests bigint[], p_trails integer[], p_creator_queues text[],
    p_creator_ids text[], p_creator_lives integer[], p_unique_keys text[], p_unique_modes text[],
    p_unique_untils text[], p_unique_windows bigint[], p_parent_places integer[], p_parent_queues text[],
    p_parent_ids text[], p_parent_policies text[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_count integer := cardinality(p_ids);
    v_born bigint := nextval('{schema}.event_seq');  -- known to the jobs before their event has its place
    v_ttl bigint := CASE WHEN cardinality(p_ttls) = 1 THEN p_ttls[1] END;
    v_creator_queue text := CASE WHEN cardinality(p_creator_queues) = 1 THEN p_creator_queues[1] END;
    v_creator_id text := CASE WHEN cardinality(p_creator_ids) = 1 THEN p_creator_ids[1] END;
    v_creator_life integer := CASE WHEN cardinality(p_creator_lives) = 1 THEN p_creator_lives[1] END;
    v_stored integer;
    v_keys bigint[] := ARRAY(SELECT nextval('{schema}.place') FROM generate_series(1, v_count));
    v record;
BEGIN
    -- In the order of the ids, so that two batches with the same ids wait for one another in one order only.
    INSERT INTO {schema}.job (
        key, queue, generation, priority, max_stalls, trail, born_index, born_seq, created_ms, ttl_ms, request,
        keep_result_ms, keep_record_ms, keep_dead_ms, id, task, unique_key, unique_mode, unique_until,
        unique_window_ms, creator_queue, creator_id, creator_generation, overrides, headers, payload
    )
    SELECT u.key, p_queue, coalesce(u.life, p_lives[1]), coalesce(u.priority, p_priorities[1]),
        coalesce(u.max_stalls, p_max_stalls[1]), coalesce(u.trail, p_trails[1]), u.n - 1, v_born, p_now,
        coalesce(u.ttl, v_ttl), coalesce(u.request, p_requests[1]), coalesce(u.keep_result, p_keep_results[1]),
        coalesce(u.keep_record, p_keep_records[1]), coalesce(u.keep_dead, p_keep_deads[1]), u.id,
        coalesce(u.task, p_tasks[1]), u.unique_key, u.unique_mode, u.unique_until, u.unique_window,
        coalesce(u.creator_queue, v_creator_queue), coalesce(u.creator_id, v_creator_id),
        coalesce(u.creator_life, v_creator_life), coalesce(u.overrides, p_overrides[1]),
        coalesce(u.headers, p_headers[1]), coalesce(u.payload, p_payloads[1])
    FROM unnest(
        v_keys, p_ids, p_lives, p_tasks, p_payloads, p_priorities, p_ttls, p_max_stalls, p_keep_results,
        p_keep_records, p_keep_deads, p_overrides, p_headers, p_requests, p_trails, p_creator_queues, p_creator_ids,
        p_creator_lives, p_unique_keys, p_unique_modes, p_unique_untils, p_unique_windows
    ) WITH ORDINALITY AS u (
        key, id, life, task, payload, priority, ttl, max_stalls, keep_result, keep_record, keep_dead, overrides,
        headers, request, trail, creator_queue, creator_id, creator_life, unique_key, unique_mode, unique_until,
        unique_window, n
    )
    ORDER BY u.id COLLATE "C", u.n
    ON CONFLICT (queue, id) DO NOTHING;
    GET DIAGNOSTICS v_stored = ROW_COUNT;
    IF v_stored < v_count THEN
        v_keys := ARRAY(
            SELECT (SELECT j.key FROM {schema}.job AS j WHERE j.queue = p_queue AND j.key = u.key)
            FROM unnest(v_keys) WITH ORDINALITY AS u (key, n) ORDER BY u.n
        );
        IF v_stored = 0 THEN
            RETURN v_keys;
        END IF;
        UPDATE {schema}.job AS j SET born_index = f.place
        FROM (
            SELECT u.key, row_number() OVER (ORDER BY u.n) - 1 AS place
            FROM unnest(v_keys) WITH ORDINALITY AS u (key, n) WHERE u.key IS NOT NULL
        ) AS f
        WHERE j.queue = p_queue AND j.key = f.key AND j.born_index <> f.place;
    END IF;
    IF p_parent_places IS NOT NULL THEN
        PERFORM {store_parents}(
            p_queue, p_name, v_keys, p_ids, {spread}(p_lives, v_count), p_parent_places, p_parent_queues, p_parent_ids,
            p_parent_policies
        );
    END IF;
    INSERT INTO {schema}.ready (
        job, place, queue, rank, suspect, flags, attempts, failures, stalls, fence, since_ms, due_ms, expires_ms
    )
    SELECT u.key, u.key, p_queue, -coalesce(u.priority, p_priorities[1]), false,
        CASE WHEN coalesce(u.trail, p_trails[1]) > 0 THEN 17 ELSE 0 END
            + CASE WHEN u.mode <> 'throttle' THEN CASE u.until WHEN 'start' THEN 2 ELSE 4 END ELSE 0 END,
        0, 0, 0, coalesce(u.fence, p_fences[1]), p_now, coalesce(u.due, p_dues[1]), p_now + coalesce(u.ttl, v_ttl)
    FROM unnest(v_keys, p_states, p_priorities, p_trails, p_unique_modes, p_unique_untils, p_fences, p_dues, p_ttls)
        AS u (key, state, priority, trail, mode, until, fence, due, ttl)
    WHERE coalesce(u.state, p_states[1]) = 2 AND u.key IS NOT NULL;
    IF 1 = ANY(p_states) OR 4 = ANY(p_states) THEN
        INSERT INTO {schema}.scheduled (
            job, place, queue, blocked, suspect, flags, attempts, failures, stalls, fence, due_ms, expires_ms
        )
        SELECT u.key, u.key, p_queue, o.state = 4, false,
            CASE WHEN coalesce(u.trail, p_trails[1]) > 0 THEN 17 ELSE 0 END | CASE WHEN o.state = 4 THEN 1 ELSE 0 END
                + CASE WHEN u.mode <> 'throttle' THEN CASE u.until WHEN 'start' THEN 2 ELSE 4 END ELSE 0 END,
            0, 0, 0, coalesce(u.fence, p_fences[1]), coalesce(u.due, p_dues[1]), p_now + coalesce(u.ttl, v_ttl)
        FROM unnest(v_keys, p_states, p_trails, p_unique_modes, p_unique_untils, p_fences, p_dues, p_ttls)
            AS u (key, state, trail, mode, until, fence, due, ttl)
        CROSS JOIN LATERAL (SELECT coalesce(u.state, p_states[1]) AS state) AS o
        WHERE o.state <> 2 AND u.key IS NOT NULL;
    END IF;
    IF v_stored < v_count THEN
        SELECT array_agg(u.id ORDER BY u.n), array_agg(coalesce(u.life, p_lives[1]) ORDER BY u.n),
            array_agg(coalesce(u.state, p_states[1]) ORDER BY u.n)
        INTO p_ids, p_lives, p_states
        FROM unnest(v_keys, p_ids, p_lives, p_states) WITH ORDINALITY AS u (key, id, life, state, n)
        WHERE u.key IS NOT NULL;
    END IF;
    SELECT array_agg((10 + u.state)::smallint ORDER BY u.n) AS whats,
        count(*) FILTER (WHERE u.state = 1) * v_stored / cardinality(p_states) AS scheduled,
        count(*) FILTER (WHERE u.state = 2) * v_stored / cardinality(p_states) AS waiting,
        count(*) FILTER (WHERE u.state = 4) * v_stored / cardinality(p_states) AS blocked
    INTO v FROM unnest(p_states) WITH ORDINALITY AS u (state, n);
    -- Drawn when no id can be waited for any more: what made way for it, in another step, is told before it.
    INSERT INTO {schema}.event (queue, count, seq, born, at_ms, ids, lives, whats, attempts)
    VALUES (p_queue, v_stored, nextval('{schema}.event_seq'), v_born, p_now, p_ids, p_lives, v.whats, '{0}');
    INSERT INTO {schema}.tally (queue, accepted, scheduled, waiting, blocked)
    VALUES (p_queue, v_stored, v.scheduled, v.waiting, v.blocked);
    IF 0 < ANY(p_trails) THEN
        PERFORM {trace}(p_queue, v_keys, '{1}', NULL, p_now);
    END IF;
    RETURN v_keys;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
