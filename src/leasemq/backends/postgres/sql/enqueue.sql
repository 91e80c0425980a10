-- Store jobs in this order, or answer what stands for each already. Where nothing is asked that needs a look at
-- other jobs first, which is the rule, all are stored together; else one after the other.
-- Arrays: one element for all, one each, or null for nulls.
-- In: p_now, p_channel, p_queue, p_ids, p_tasks, p_payloads, p_priorities, p_delays, p_due_ats, p_ttls, p_max_stalls,
-- p_keep_results, p_keep_records, p_keep_deads, p_overrides, p_headers, p_requests, p_trails, p_creator_queues,
-- p_creator_ids, p_creator_lives, p_reuses (bit n: state n may be replaced), p_unique_keys, p_unique_modes,
-- p_unique_untils, p_unique_windows, p_at_mosts, p_parent_places (which job of the batch, from 1), p_parent_queues,
-- p_parent_ids, p_parent_policies
-- Out: acceptances (1 created, 2 existing, 3 skipped, 4 replaced, 5 debounced), and the id, generation, state and
-- same_payload of what stands for each; arrays whose last element repeats, an empty `ids` for those given
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_ids text[], p_tasks text[], p_payloads bytea[],
    p_priorities smallint[], p_delays bigint[], p_due_ats bigint[], p_ttls bigint[], p_max_stalls integer[],
    p_keep_results bigint[], p_keep_records bigint[], p_keep_deads bigint[], p_overrides bytea[], p_headers bytea[],
    p_requests bigint[], p_trails integer[], p_creator_queues text[], p_creator_ids text[], p_creator_lives integer[],
    p_reuses integer[], p_unique_keys text[], p_unique_modes text[], p_unique_untils text[], p_unique_windows bigint[],
    p_at_mosts bigint[], p_parent_places integer[], p_parent_queues text[], p_parent_ids text[],
    p_parent_policies text[]
) RETURNS TABLE (
    acceptances smallint[], ids text[], generations integer[], states smallint[], sames boolean[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := {now_ms}(p_now);
    v_queue integer := {open_queue}(p_queue);
    v_count integer := cardinality(p_ids);
    v_keys bigint[];
    v_dues bigint[];
    v_states smallint[];
    v_one record;
BEGIN
    IF p_unique_keys IS NULL
        AND NOT EXISTS (SELECT FROM {schema}.alias AS a WHERE a.queue = v_queue AND a.id = ANY(p_ids))
        AND NOT EXISTS (SELECT FROM {schema}.slip AS s WHERE s.queue = v_queue AND s.id = ANY(p_ids))
        AND (p_reuses IS NULL
            OR NOT EXISTS (SELECT FROM {schema}.job AS j WHERE j.queue = v_queue AND j.id = ANY(p_ids)))
    THEN
        IF p_parent_places IS NULL AND p_due_ats IS NULL AND cardinality(p_delays) = 1 THEN
            v_dues := ARRAY[greatest(v_now, v_now + p_delays[1])];
            v_states := ARRAY[CASE WHEN v_dues[1] > v_now THEN 1 ELSE 2 END];
        ELSE
            p_delays := {spread}(p_delays, v_count);
            p_due_ats := {spread}(p_due_ats, v_count);
            SELECT array_agg(f.due ORDER BY f.n),
                array_agg(CASE WHEN f.has_parents THEN 4 WHEN f.due > v_now THEN 1 ELSE 2 END::smallint ORDER BY f.n)
            INTO v_dues, v_states
            FROM (
                SELECT u.n, greatest(v_now, coalesce(u.due_at, v_now + u.delay)) AS due,
                    p_parent_places IS NOT NULL AND u.n = ANY(p_parent_places) AS has_parents
                FROM unnest(p_delays, p_due_ats) WITH ORDINALITY AS u (delay, due_at, n)
            ) AS f;
        END IF;
        v_keys := {store_jobs}(
            v_now, v_queue, p_queue, p_ids, '{1}', '{0}', p_tasks, p_payloads, p_priorities, v_dues, v_states, p_ttls,
            p_max_stalls, p_keep_results, p_keep_records, p_keep_deads, p_overrides, p_headers, p_requests, p_trails,
            p_creator_queues, p_creator_ids, p_creator_lives, NULL, NULL, NULL, NULL, p_parent_places, p_parent_queues,
            p_parent_ids, p_parent_policies
        );
        IF array_position(v_keys, NULL) IS NULL THEN
            PERFORM {push}(p_channel, p_queue, true, NULL, NULL, NULL, NULL);
            RETURN QUERY SELECT '{1}'::smallint[], '{}'::text[], '{1}'::integer[], v_states, ARRAY[true];
            RETURN;
        END IF;
        SELECT array_agg(CASE WHEN u.key IS NULL THEN 2 ELSE 1 END::smallint ORDER BY u.n) AS acceptances,
            array_agg(coalesce(j.generation, 1) ORDER BY u.n) AS generations,
            array_agg(
                CASE WHEN u.key IS NULL THEN j.state ELSE coalesce(u.state, v_states[1]) END::smallint ORDER BY u.n
            ) AS states,
            array_agg(
                coalesce(
                    u.key IS NOT NULL OR (
                        j.task = coalesce(u.task, p_tasks[1]) AND j.payload = coalesce(u.payload, p_payloads[1])
                    ),
                    false
                ) ORDER BY u.n
            ) AS sames,
            count(*) FILTER (WHERE u.key IS NULL AND j.generation IS NULL) AS gone,
            min(u.id) FILTER (WHERE u.key IS NULL AND j.generation IS NOT NULL AND j.state IS NULL) AS nowhere
        INTO v_one
        FROM unnest(v_keys, p_ids, p_tasks, p_payloads, v_states) WITH ORDINALITY
            AS u (key, id, task, payload, state, n)
        LEFT JOIN LATERAL (
            SELECT k.generation, k.task, k.payload, s.state
            FROM {schema}.job AS k LEFT JOIN LATERAL (
                SELECT f.state FROM {schema}.stand AS f WHERE f.job = k.key LIMIT 1
            ) AS s ON true
            WHERE u.key IS NULL AND k.queue = v_queue AND k.id = u.id LIMIT 1
        ) AS j ON true;
        IF v_one.nowhere IS NOT NULL THEN
            RAISE EXCEPTION 'job % is in no state', v_one.nowhere USING ERRCODE = 'LM001';
        END IF;
        IF v_one.gone > 0 THEN
            RAISE EXCEPTION 'a known job went while it was looked at' USING ERRCODE = '40001';
        END IF;
        IF 1 = ANY(v_one.acceptances) THEN
            PERFORM {push}(p_channel, p_queue, true, NULL, NULL, NULL, NULL);
        END IF;
        RETURN QUERY SELECT v_one.acceptances, '{}'::text[], v_one.generations, v_one.states, v_one.sames;
        RETURN;
    END IF;
    p_tasks := {spread}(p_tasks, v_count);
    p_payloads := {spread}(p_payloads, v_count);
    p_priorities := {spread}(p_priorities, v_count);
    p_delays := {spread}(p_delays, v_count);
    p_due_ats := {spread}(p_due_ats, v_count);
    p_ttls := {spread}(p_ttls, v_count);
    p_max_stalls := {spread}(p_max_stalls, v_count);
    p_keep_results := {spread}(p_keep_results, v_count);
    p_keep_records := {spread}(p_keep_records, v_count);
    p_keep_deads := {spread}(p_keep_deads, v_count);
    p_overrides := {spread}(p_overrides, v_count);
    p_headers := {spread}(p_headers, v_count);
    p_requests := {spread}(p_requests, v_count);
    p_trails := {spread}(p_trails, v_count);
    p_creator_queues := {spread}(p_creator_queues, v_count);
    p_creator_ids := {spread}(p_creator_ids, v_count);
    p_creator_lives := {spread}(p_creator_lives, v_count);
    p_reuses := {spread}(p_reuses, v_count);
    p_unique_keys := {spread}(p_unique_keys, v_count);
    p_unique_modes := {spread}(p_unique_modes, v_count);
    p_unique_untils := {spread}(p_unique_untils, v_count);
    p_unique_windows := {spread}(p_unique_windows, v_count);
    p_at_mosts := {spread}(p_at_mosts, v_count);
    -- Keys that nobody holds are taken first, in one order, by a holder without a life whom the job replaces: two batches
    -- that bring the same new keys would else wait for each other, and not see in time whose jobs to lock.
    IF v_count > 1 AND p_unique_keys IS NOT NULL THEN
        INSERT INTO {schema}.hold (queue, key, id, generation)
        SELECT v_queue, u.key, '', 0 FROM unnest(p_unique_keys) AS u (key)
        WHERE u.key IS NOT NULL GROUP BY u.key ORDER BY u.key
        ON CONFLICT (queue, key) DO NOTHING;
    END IF;
    -- What stands for the ids and holds the keys is locked in the order that everybody keeps: jobs, then keys. Jobs
    -- that run are not: nothing makes way while it runs, and a handler's own transaction may have it locked for long.
    PERFORM {lock_jobs}(v_queue, ARRAY(
        SELECT f.key FROM (
            SELECT j.key FROM {schema}.job AS j WHERE j.queue = v_queue AND j.id = ANY(p_ids)
            UNION SELECT a.job FROM {schema}.alias AS a WHERE a.queue = v_queue AND a.id = ANY(p_ids)
            UNION SELECT o.key FROM {schema}.hold AS h CROSS JOIN LATERAL (
                SELECT j.key FROM {schema}.job AS j WHERE j.queue = v_queue AND j.id = h.id LIMIT 1
            ) AS o
            WHERE h.queue = v_queue AND h.key = ANY(p_unique_keys)
        ) AS f
        WHERE NOT EXISTS (SELECT FROM {schema}.active AS r WHERE r.job = f.key)
    ));
    PERFORM FROM {schema}.hold AS h WHERE h.queue = v_queue AND h.key = ANY(p_unique_keys) ORDER BY h.key FOR UPDATE;
    acceptances := '{}'; ids := '{}'; generations := '{}'; states := '{}'; sames := '{}';
    FOR i IN 1..v_count LOOP
        SELECT * INTO STRICT v_one FROM {enqueue_one}(
            v_now, p_channel, v_queue, p_queue, p_ids[i], p_tasks[i], p_payloads[i], p_priorities[i],
            greatest(v_now, coalesce(p_due_ats[i], v_now + p_delays[i])), p_ttls[i], p_max_stalls[i], p_keep_results[i],
            p_keep_records[i], p_keep_deads[i], p_overrides[i], p_headers[i], p_requests[i], p_trails[i],
            p_creator_queues[i], p_creator_ids[i], p_creator_lives[i], coalesce(p_reuses[i], 0), p_unique_keys[i],
            p_unique_modes[i], p_unique_untils[i], p_unique_windows[i], p_at_mosts[i],
            ARRAY(SELECT u.queue FROM unnest(p_parent_places, p_parent_queues) WITH ORDINALITY AS u (place, queue, n)
                WHERE u.place = i ORDER BY u.n),
            ARRAY(SELECT u.id FROM unnest(p_parent_places, p_parent_ids) WITH ORDINALITY AS u (place, id, n)
                WHERE u.place = i ORDER BY u.n),
            ARRAY(SELECT u.policy FROM unnest(p_parent_places, p_parent_policies) WITH ORDINALITY AS u (place, policy, n)
                WHERE u.place = i ORDER BY u.n)
        );
        acceptances := acceptances || v_one.acceptance;
        ids := ids || v_one.id;
        generations := generations || v_one.generation;
        states := states || v_one.state;
        sames := sames || v_one.same;
    END LOOP;
    IF 2 = ANY(acceptances) THEN  -- a known id takes no key
        DELETE FROM {schema}.hold AS h WHERE h.queue = v_queue AND h.key = ANY(p_unique_keys) AND h.generation = 0;
    END IF;
    IF 1 = ANY(acceptances) OR 5 = ANY(acceptances) THEN
        PERFORM {push}(p_channel, p_queue, true, NULL, NULL, NULL, NULL);
    ELSIF 4 = ANY(acceptances) THEN
        PERFORM {push}(p_channel, p_queue, false, NULL, NULL, NULL, NULL);
    END IF;
    RETURN NEXT;
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
