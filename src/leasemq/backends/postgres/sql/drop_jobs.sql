-- Delete jobs and all that is stored with them, in the order given. Those that had not ended tell their dependants
-- so, and free their keys. They are locked by the caller.
-- In: p_queue, p_name (of the queue), p_keys, p_keeps_results (what completed jobs returned stays as long as it is
-- due to be kept), p_now
-- Out: nothing
CREATE FUNCTION {self}(p_queue integer, p_name text, p_keys bigint[], p_keeps_results boolean, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v record;
    v_slips bigint := 0;
BEGIN
    SELECT
        array_agg(f.key ORDER BY f.n) AS keys, array_agg(f.id ORDER BY f.n) AS ids,
        array_agg(f.generation ORDER BY f.n) AS lives, array_agg(coalesce(f.attempts, 0) ORDER BY f.n) AS attempts,
        array_agg(f.key ORDER BY f.n) FILTER (WHERE f.state < 5 OR f.state IS NULL) AS open,
        array_agg(f.key) FILTER (WHERE f.flags & 25 <> 0 OR f.state IS NULL) AS laden,
        count(*) FILTER (WHERE f.state = 1) AS scheduled, count(*) FILTER (WHERE f.state = 2) AS waiting,
        count(*) FILTER (WHERE f.state = 3) AS active, count(*) FILTER (WHERE f.state = 4) AS blocked,
        count(*) FILTER (WHERE f.state = 5) AS completed, count(*) FILTER (WHERE f.state = 6) AS failed,
        count(*) FILTER (WHERE f.state = 7) AS cancelled, count(*) FILTER (WHERE f.state = 8) AS expired
    INTO v
    FROM (
        SELECT u.n, u.key, s.state, s.flags, s.attempts, j.id, j.generation
        FROM unnest(p_keys) WITH ORDINALITY AS u (key, n)
        CROSS JOIN LATERAL (
            SELECT k.id, k.generation FROM {schema}.job AS k WHERE k.queue = p_queue AND k.key = u.key LIMIT 1
        ) AS j
        LEFT JOIN LATERAL (
            SELECT w.state, w.flags, w.attempts FROM {schema}.stand AS w WHERE w.job = u.key LIMIT 1
        ) AS s ON true
    ) AS f;
    IF v.keys IS NULL THEN
        RETURN;
    END IF;
    IF v.open IS NOT NULL THEN
        PERFORM {free_keys}(p_queue, v.open, true);
        PERFORM {tell_dependants}(p_queue, p_name, v.open);
    END IF;
    IF p_keeps_results AND v.completed > 0 THEN
        v_slips := {keep_slips}(p_queue, v.keys, p_now);
    END IF;
    DELETE FROM {schema}.scheduled WHERE job = ANY(v.keys);
    DELETE FROM {schema}.ready WHERE job = ANY(v.keys);
    DELETE FROM {schema}.active WHERE job = ANY(v.keys);
    DELETE FROM {schema}.ended WHERE job = ANY(v.keys);
    IF v.laden IS NOT NULL THEN
        DELETE FROM {schema}.extra WHERE job = ANY(v.laden);
        DELETE FROM {schema}.attempt WHERE job = ANY(v.laden);
        DELETE FROM {schema}.refused WHERE job = ANY(v.laden);
        DELETE FROM {schema}.log WHERE job = ANY(v.laden);
        DELETE FROM {schema}.trail WHERE job = ANY(v.laden);
        DELETE FROM {schema}.alias WHERE job = ANY(v.laden);
        DELETE FROM {schema}.parent WHERE job = ANY(v.laden);
        DELETE FROM {schema}.dependant WHERE job = ANY(v.laden);
    END IF;
    DELETE FROM {schema}.job WHERE queue = p_queue AND key = ANY(v.keys);
    INSERT INTO {schema}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)
    VALUES (
        p_queue, cardinality(v.keys), nextval('{schema}.event_seq'), p_now, v.ids, v.lives, '{180}', v.attempts
    );
    INSERT INTO {schema}.tally (
        queue, removed, scheduled, waiting, active, blocked, completed, failed, cancelled, expired, slips
    )
    VALUES (
        p_queue, cardinality(v.keys), -v.scheduled, -v.waiting, -v.active, -v.blocked, -v.completed, -v.failed,
        -v.cancelled, -v.expired, v_slips
    );
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
