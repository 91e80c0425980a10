-- Delete some of a queue's jobs, the oldest accepted first. The first step is refused as the whole is; it says up
-- to where the whole goes, so that what is accepted meanwhile stays.
-- In: p_now, p_channel, p_queue, p_force (running ones too), p_after (the last key of the step before; null: this is
-- the first), p_until (as the first step said), p_limit
-- Out: removed (null: refused), the last key looked at, until, whether there may be more
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_force boolean, p_after bigint, p_until bigint, p_limit integer
) RETURNS TABLE (removed integer, last_key bigint, until_key bigint, has_more boolean) LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_keys bigint[];
    v_chosen bigint[];
    v_slips bigint;
BEGIN
    until_key := p_until;
    IF p_after IS NULL THEN
        IF NOT p_force AND EXISTS (SELECT FROM {schema}.active AS a WHERE a.queue = v_queue) THEN
            RETURN NEXT;
            RETURN;
        END IF;
        SELECT j.key INTO until_key FROM {schema}.job AS j WHERE j.queue = v_queue
        ORDER BY j.queue DESC, j.key DESC LIMIT 1;
    END IF;
    v_keys := ARRAY(
        SELECT j.key FROM {schema}.job AS j
        WHERE j.queue = v_queue AND j.key > coalesce(p_after, 0) AND j.key <= until_key
        ORDER BY j.queue, j.key LIMIT p_limit
    );
    v_chosen := ARRAY(
        SELECT l.job FROM {lock_jobs}(v_queue, v_keys) AS l WHERE p_force OR l.state <> 3 ORDER BY l.job
    );
    PERFORM {drop_for_good}(p_channel, v_queue, p_queue, v_chosen, {now_ms}(p_now));
    WITH gone AS (
        DELETE FROM {schema}.slip AS s USING (
            SELECT o.queue, o.id, o.generation FROM {schema}.slip AS o WHERE o.queue = v_queue
            ORDER BY o.until_ms, o.taken LIMIT p_limit FOR UPDATE
        ) AS f
        WHERE s.queue = f.queue AND s.id = f.id AND s.generation = f.generation RETURNING 1
    )
    SELECT count(*) INTO v_slips FROM gone;
    IF v_slips > 0 THEN
        INSERT INTO {schema}.tally (queue, slips) VALUES (v_queue, -v_slips);
    END IF;
    removed := cardinality(v_chosen);
    last_key := coalesce(v_keys[cardinality(v_keys)], p_after, 0);
    has_more := cardinality(v_keys) = p_limit OR v_slips = p_limit;
    RETURN NEXT;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
