-- Store one job, or answer what stands for it: its id's own job, the one that the id was merged into, or the
-- holder of its unique key.
-- In: p_now, p_channel, p_queue, p_name, p_id, p_task, p_payload, p_priority, p_due, p_ttl, p_max_stalls,
-- p_keep_result, p_keep_record, p_keep_dead, p_overrides, p_headers, p_request, p_trail, p_creator_queue,
-- p_creator_id, p_creator_life, p_reuse, p_unique_key, p_unique_mode, p_unique_until, p_unique_window, p_at_most,
-- p_parent_queues, p_parent_ids, p_parent_policies
-- Out: acceptance, id, generation, state, same, as enqueue.sql
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue integer, p_name text, p_id text, p_task text, p_payload bytea,
    p_priority smallint, p_due bigint, p_ttl bigint, p_max_stalls integer, p_keep_result bigint,
    p_keep_record bigint, p_keep_dead bigint, p_overrides bytea, p_headers bytea, p_request bigint, p_trail integer,
    p_creator_queue text, p_creator_id text, p_creator_life integer, p_reuse integer, p_unique_key text,
    p_unique_mode text, p_unique_until text, p_unique_window bigint, p_at_most bigint, p_parent_queues text[],
    p_parent_ids text[], p_parent_policies text[]
) RETURNS TABLE (acceptance smallint, id text, generation integer, state smallint, same boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_known record;
    v_keys bigint[];
    v_own bigint;
    v_own_life integer;
    v_own_fence bigint;
    v_hold {schema}.hold;
    v_life integer;
    v_key bigint;
    v_state smallint;
BEGIN
    <<passes>>
    FOR v_pass IN 1..20 LOOP
        -- Whatever stands for the id is locked, unless it runs, then looked at; the one it was merged into stands for
        -- it first.
        v_keys := ARRAY(
            SELECT f.key FROM (
                SELECT a.job AS key FROM {schema}.alias AS a WHERE a.queue = p_queue AND a.id = p_id
                UNION SELECT j.key FROM {schema}.job AS j WHERE j.queue = p_queue AND j.id = p_id
            ) AS f
            WHERE NOT EXISTS (SELECT FROM {schema}.active AS r WHERE r.job = f.key) ORDER BY f.key
        );
        PERFORM {lock_jobs}(p_queue, v_keys);
        v_own := NULL;
        FOR v_known IN
            SELECT f.own, j.key, j.id, j.generation, j.request, j.task, j.payload, s.state, s.fence
            FROM (
                SELECT a.job AS key, false AS own FROM {schema}.alias AS a WHERE a.queue = p_queue AND a.id = p_id
                UNION ALL SELECT k.key, true FROM {schema}.job AS k WHERE k.queue = p_queue AND k.id = p_id
            ) AS f
            CROSS JOIN LATERAL (
                SELECT * FROM {schema}.job AS k WHERE k.queue = p_queue AND k.key = f.key LIMIT 1
            ) AS j
            LEFT JOIN LATERAL (SELECT * FROM {schema}.stand AS k WHERE k.job = f.key LIMIT 1) AS s ON true
            ORDER BY f.own
        LOOP
            IF v_known.state IS NULL THEN
                RAISE EXCEPTION 'job % is in no state', v_known.id USING ERRCODE = 'LM001';
            END IF;
            CONTINUE passes WHEN v_known.state <> 3 AND v_known.key <> ALL(v_keys);  -- it has just stopped running
            IF p_reuse & (1 << v_known.state) = 0 OR (p_request <> 0 AND v_known.request = p_request) THEN
                RETURN QUERY SELECT 2::smallint, v_known.id, v_known.generation, v_known.state,
                    v_known.task = p_task AND v_known.payload = p_payload;
                RETURN;
            END IF;
            IF v_known.own THEN
                v_own := v_known.key;
                v_own_life := v_known.generation;
                v_own_fence := v_known.fence;
            END IF;
        END LOOP;
        SELECT coalesce(max(s.generation), 0) + 1 INTO v_life FROM {schema}.slip AS s
        WHERE s.queue = p_queue AND s.id = p_id;
        IF v_own IS NOT NULL THEN
            v_life := v_own_life + 1;
        END IF;
        IF p_unique_key IS NOT NULL THEN
            DELETE FROM {schema}.hold AS h
            WHERE h.queue = p_queue AND h.key = p_unique_key AND h.until_ms <= p_now;
            INSERT INTO {schema}.hold (queue, key, id, generation, until_ms)
            VALUES (p_queue, p_unique_key, p_id, v_life,
                CASE WHEN p_unique_mode <> 'debounce' THEN p_now + p_unique_window END)
            ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
                SET id = p_id, generation = v_life, until_ms = excluded.until_ms
                WHERE hold.generation = 0;  -- kept free for this batch
            IF NOT FOUND THEN
                SELECT h.* INTO v_hold FROM {schema}.hold AS h
                WHERE h.queue = p_queue AND h.key = p_unique_key FOR UPDATE;
                CONTINUE WHEN NOT FOUND;
                RETURN QUERY SELECT m.* FROM {merge}(
                    p_now, p_channel, p_queue, p_name, p_id, p_task, p_payload, p_overrides, p_headers, p_unique_mode,
                    p_unique_window, p_at_most, v_hold.key, v_hold.id, v_hold.generation
                ) AS m;
                IF FOUND THEN
                    RETURN;
                END IF;
                CONTINUE;  -- the holder expired here and now
            END IF;
        END IF;
        IF v_own IS NOT NULL THEN
            PERFORM {drop_jobs}(p_queue, p_name, ARRAY[v_own], true, p_now);
        END IF;
        DELETE FROM {schema}.alias AS a WHERE a.queue = p_queue AND a.id = p_id;
        v_state := CASE WHEN cardinality(p_parent_ids) > 0 THEN 4 WHEN p_due > p_now THEN 1 ELSE 2 END;
        v_key := ({store_jobs}(
            p_now, p_queue, p_name, ARRAY[p_id], ARRAY[v_life],
            ARRAY[CASE WHEN v_own IS NULL THEN 0 ELSE v_own_fence END], ARRAY[p_task], ARRAY[p_payload],
            ARRAY[p_priority], ARRAY[p_due], ARRAY[v_state], ARRAY[p_ttl], ARRAY[p_max_stalls], ARRAY[p_keep_result],
            ARRAY[p_keep_record], ARRAY[p_keep_dead], ARRAY[p_overrides], ARRAY[p_headers], ARRAY[p_request],
            ARRAY[p_trail], ARRAY[p_creator_queue], ARRAY[p_creator_id], ARRAY[p_creator_life], ARRAY[p_unique_key],
            ARRAY[p_unique_mode], ARRAY[p_unique_until], ARRAY[p_unique_window],
            CASE WHEN cardinality(p_parent_ids) > 0 THEN array_fill(1, ARRAY[cardinality(p_parent_ids)]) END,
            p_parent_queues, p_parent_ids, p_parent_policies
        ))[1];
        IF v_key IS NOT NULL THEN
            RETURN QUERY SELECT 1::smallint, p_id, v_life, v_state, true;
            RETURN;
        END IF;
        DELETE FROM {schema}.hold AS h  -- somebody else stored the id meanwhile: look again
        WHERE h.queue = p_queue AND h.key = p_unique_key AND h.id = p_id AND h.generation = v_life;
    END LOOP;
    RAISE EXCEPTION 'what stands for the job changed too often' USING ERRCODE = '40001';
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
