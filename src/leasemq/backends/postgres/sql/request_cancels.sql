-- Mark active jobs, so that their only outcome is cancelled; those that are marked already stay as they are. They
-- are locked by the caller.
-- In: p_queue, p_keys, p_now
-- Out: nothing
CREATE FUNCTION {self}(p_queue integer, p_keys bigint[], p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v record;
BEGIN
    IF cardinality(p_keys) = 0 THEN
        RETURN;
    END IF;
    SELECT array_agg(a.job ORDER BY u.n) AS keys, array_agg(j.id ORDER BY u.n) AS ids,
        array_agg(j.generation ORDER BY u.n) AS lives, array_agg(a.attempts ORDER BY u.n) AS attempts
    INTO v
    FROM unnest(p_keys) WITH ORDINALITY AS u (key, n)
    CROSS JOIN LATERAL (
        SELECT f.job, f.attempts FROM {schema}.active AS f WHERE f.job = u.key AND NOT f.cancel_requested LIMIT 1
    ) AS a
    CROSS JOIN LATERAL (
        SELECT k.id, k.generation FROM {schema}.job AS k WHERE k.queue = p_queue AND k.key = u.key LIMIT 1
    ) AS j;
    IF v.keys IS NULL THEN
        RETURN;
    END IF;
    UPDATE {schema}.active SET cancel_requested = true WHERE job = ANY(v.keys);
    INSERT INTO {schema}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)
    VALUES (
        p_queue, cardinality(v.keys), nextval('{schema}.event_seq'), p_now, v.ids, v.lives, '{113}', v.attempts
    );
    PERFORM {trace}(p_queue, v.keys, '{11}', NULL, p_now);
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
