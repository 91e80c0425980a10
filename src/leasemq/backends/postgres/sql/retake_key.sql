-- Take a job's unique key again, which may have been given to another job since it ended; a throttled one stays as
-- it is.
-- In: p_queue, p_key (of the job), p_now
-- Out: id and generation of another job that holds it; both null: the job has it, or never had one
CREATE FUNCTION {self}(p_queue integer, p_key bigint, p_now bigint)
RETURNS TABLE (id text, generation integer) LANGUAGE plpgsql AS $$
DECLARE
    v_job record;
BEGIN
    SELECT j.id, j.generation, j.unique_key, j.unique_mode, j.unique_window_ms INTO v_job
    FROM {schema}.job AS j WHERE j.queue = p_queue AND j.key = p_key;
    IF v_job.unique_key IS NOT NULL AND v_job.unique_mode <> 'throttle' THEN
        LOOP
            INSERT INTO {schema}.hold AS h (queue, key, id, generation, until_ms)
            VALUES (
                p_queue, v_job.unique_key, v_job.id, v_job.generation,
                CASE WHEN v_job.unique_mode <> 'debounce' THEN p_now + v_job.unique_window_ms END
            )
            ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE SET
                id = excluded.id, generation = excluded.generation, until_ms = excluded.until_ms
            WHERE (h.id = excluded.id AND h.generation = excluded.generation) OR h.until_ms <= p_now;
            EXIT WHEN FOUND;
            SELECT h.id, h.generation INTO id, generation
            FROM {schema}.hold AS h WHERE h.queue = p_queue AND h.key = v_job.unique_key;
            EXIT WHEN FOUND;  -- else it was freed meanwhile
        END LOOP;
    END IF;
    RETURN NEXT;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
