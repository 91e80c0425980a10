-- Answer an enqueue whose unique key is held, by the mode that it asks for; a holder past its ttl would never
-- start, so it expires in this step. The hold is locked by the caller.
-- In: p_now, p_channel, p_queue, p_name, p_id, p_task, p_payload, p_overrides, p_headers, p_mode, p_window, p_at_most,
-- p_key, p_holder_id, p_holder_life
-- Out: as enqueue_one.sql; no row: the key is free now, or its holder another
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue integer, p_name text, p_id text, p_task text, p_payload bytea,
    p_overrides bytea, p_headers bytea, p_mode text, p_window bigint, p_at_most bigint, p_key text, p_holder_id text,
    p_holder_life integer
) RETURNS TABLE (acceptance smallint, id text, generation integer, state smallint, same boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_key bigint;
    v record;
    v_due bigint;
    v_state smallint;
BEGIN
    SELECT j.key INTO v_key FROM {schema}.job AS j
    WHERE j.queue = p_queue AND j.id = p_holder_id AND j.generation = p_holder_life;
    IF EXISTS (SELECT FROM {schema}.active AS a WHERE a.job = v_key) THEN  -- its handler may have it locked for long
        RETURN QUERY SELECT 3::smallint, p_holder_id, p_holder_life, 3::smallint, true;
        RETURN;
    END IF;
    IF v_key IS NOT NULL THEN
        PERFORM {lock_jobs}(p_queue, ARRAY[v_key]);
    END IF;
    SELECT s.state, s.attempts, s.expires_ms, j.created_ms, j.unique_key INTO v
    FROM {schema}.job AS j CROSS JOIN LATERAL (SELECT f.* FROM {schema}.stand AS f WHERE f.job = j.key LIMIT 1) AS s
    WHERE j.queue = p_queue AND j.key = v_key;
    IF v.state IS NULL THEN
        RETURN QUERY SELECT 3::smallint, p_holder_id, p_holder_life, NULL::smallint, true;
        RETURN;
    END IF;
    IF v.state IN (1, 2, 4) AND v.expires_ms <= p_now THEN
        PERFORM {end_jobs}(p_queue, p_name, ARRAY[v_key], 8::smallint, NULL, p_now, p_channel);
        IF NOT EXISTS (
            SELECT FROM {schema}.hold AS h
            WHERE h.queue = p_queue AND h.key = p_key AND h.id = p_holder_id AND h.generation = p_holder_life
        ) THEN
            RETURN;
        END IF;
        SELECT s.state INTO v.state FROM {schema}.stand AS s WHERE s.job = v_key;
    END IF;
    -- A throttled key may outlive its holder, whose id is then another job's, which never had the key.
    IF v.state IS NULL OR p_mode NOT IN ('replace', 'debounce') OR v.unique_key IS DISTINCT FROM p_key
        OR v.state NOT IN (1, 2, 4) OR v.attempts > 0 THEN
        RETURN QUERY SELECT 3::smallint, p_holder_id, p_holder_life, v.state, true;
        RETURN;
    END IF;
    UPDATE {schema}.job AS j SET task = p_task, payload = p_payload, overrides = p_overrides, headers = p_headers
    WHERE j.queue = p_queue AND j.key = v_key;
    INSERT INTO {schema}.alias (queue, id, job) VALUES (p_queue, p_id, v_key)
    ON CONFLICT ON CONSTRAINT alias_pkey DO UPDATE SET job = excluded.job;
    PERFORM {flag}(v_key, 1::smallint);
    v_state := v.state;
    IF p_mode = 'debounce' THEN
        v_due := p_now + coalesce(p_window, 0);
        IF p_at_most IS NOT NULL THEN
            v_due := greatest(p_now, least(v_due, v.created_ms + p_at_most));
        END IF;
        IF v_state <> 4 THEN
            v_state := CASE WHEN v_due > p_now THEN 1 ELSE 2 END;
            PERFORM {place_jobs}(p_queue, ARRAY[v_key], ARRAY[v_state], ARRAY[v_due], 16::smallint, p_now);
            RETURN QUERY SELECT 5::smallint, p_holder_id, p_holder_life, v_state, true;
            RETURN;
        END IF;
        UPDATE {schema}.scheduled AS s SET due_ms = v_due WHERE s.job = v_key;
    END IF;
    INSERT INTO {schema}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)
    VALUES (p_queue, 1, nextval('{schema}.event_seq'), p_now, ARRAY[p_holder_id], ARRAY[p_holder_life],
        ARRAY[(160 + v_state)::smallint], '{0}');
    PERFORM {trace}(p_queue, ARRAY[v_key], '{16}', NULL, p_now);
    RETURN QUERY SELECT CASE p_mode WHEN 'debounce' THEN 5 ELSE 4 END::smallint, p_holder_id, p_holder_life, v_state,
        true;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
