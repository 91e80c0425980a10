-- Record progress, log lines, checkpoints and offered children of attempts whose fence is the newest, in the order
-- given. A number that is not above the attempt's last one is a repeat. Arrays: one each.
-- In: p_now, p_channel, p_queue, p_ids, p_fences, p_nonces, p_kinds, p_values, p_numbers, p_child_queues,
-- p_child_ids, p_children (packed jobs, without their creator)
-- Out: whether each was held
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_ids text[], p_fences bigint[], p_nonces text[], p_kinds text[],
    p_values bytea[], p_numbers integer[], p_child_queues text[], p_child_ids text[], p_children bytea[]
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := {now_ms}(p_now);
    v_queue integer := {queue_key}(p_queue);
    v_held boolean[] := '{}';
    v_told boolean := false;
    v_key bigint;
    v_active {schema}.active;
    n record;
BEGIN
    FOR n IN
        SELECT u.* FROM unnest(
            p_ids, p_fences, p_nonces, p_kinds, p_values, p_numbers, p_child_queues, p_child_ids, p_children
        ) WITH ORDINALITY
            AS u (id, fence, nonce, kind, value, number, child_queue, child_id, child, place)
        ORDER BY u.place
    LOOP
        SELECT j.key INTO v_key FROM {schema}.job AS j WHERE j.queue = v_queue AND j.id = n.id;
        SELECT a.* INTO v_active FROM {schema}.active AS a
        WHERE a.job = v_key AND a.fence = n.fence AND a.nonce = n.nonce FOR UPDATE;
        v_held := v_held || (v_active.job IS NOT NULL);
        IF v_active.job IS NULL THEN
            IF v_key IS NOT NULL AND {lock_soon}(v_queue, v_key, 200) THEN
                PERFORM {refuse}(v_queue, v_key, v_now, n.fence, n.kind);
            END IF;
            CONTINUE;
        END IF;
        CONTINUE WHEN n.number > 0 AND n.number <= v_active.noted;
        IF n.kind <> 'offer' THEN
            UPDATE {schema}.active AS a SET noted = greatest(a.noted, n.number), flags = a.flags | 1
            WHERE a.job = v_key;
        ELSIF n.number > 0 THEN
            UPDATE {schema}.active AS a SET noted = n.number WHERE a.job = v_key;
        END IF;
        CASE n.kind
        WHEN 'progress' THEN
            INSERT INTO {schema}.extra AS e (job, progress) VALUES (v_key, n.value)
            ON CONFLICT (job) DO UPDATE SET progress = excluded.progress;
            INSERT INTO {schema}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)
            SELECT v_queue, 1, nextval('{schema}.event_seq'), v_now, ARRAY[j.id], ARRAY[j.generation], '{153}',
                ARRAY[v_active.attempts]
            FROM {schema}.job AS j WHERE j.queue = v_queue AND j.key = v_key;
            PERFORM {trace}(v_queue, ARRAY[v_key], '{15}', n.value, v_now);
            v_told := true;
        WHEN 'log' THEN
            INSERT INTO {schema}.log (job, number, line)
            SELECT v_key, coalesce(max(l.number), 0) + 1, n.value FROM {schema}.log AS l WHERE l.job = v_key;
            DELETE FROM {schema}.log AS l WHERE l.job = v_key
            AND l.number <= (SELECT max(m.number) FROM {schema}.log AS m WHERE m.job = v_key) - 100;
            PERFORM {trace}(v_queue, ARRAY[v_key], '{19}', n.value, v_now);
        WHEN 'checkpoint' THEN
            INSERT INTO {schema}.extra AS e (job, checkpoint) VALUES (v_key, n.value)
            ON CONFLICT (job) DO UPDATE SET checkpoint = excluded.checkpoint;
        ELSE
            INSERT INTO {schema}.outbox (
                queue, kind, child_queue, child_id, child_generation, parent_queue, parent_id, parent_generation, job
            )
            SELECT v_queue, 'offer', n.child_queue, n.child_id, 0, p_queue, j.id, j.generation, n.child
            FROM {schema}.job AS j WHERE j.queue = v_queue AND j.key = v_key;
        END CASE;
    END LOOP;
    IF v_told THEN
        PERFORM {push}(p_channel, p_queue, false, NULL, NULL, NULL, NULL);
    END IF;
    RETURN v_held;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
