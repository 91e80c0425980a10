-- Answer why a settlement does not apply, and note a holder's that comes too late.
-- In: p_queue, p_key (null: no record of that generation), p_now, p_settlement, p_fence, p_nonce, p_outcome, p_sweep,
-- p_seen
-- Out: answer, as settle.sql
CREATE FUNCTION {self}(
    p_queue integer, p_key bigint, p_now bigint, p_settlement bigint, p_fence bigint, p_nonce text,
    p_outcome smallint, p_sweep boolean, p_seen boolean
) RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
    v_active {schema}.active;
    v_is_locked boolean := true;
BEGIN
    IF p_key IS NULL THEN
        RETURN 6;
    END IF;
    -- Another sweep is done in a moment; a handler's own transaction may take long, and its holder lives. Nor is it
    -- waited for by a holder whose job another one runs: it is lost whatever happens now.
    IF p_sweep OR EXISTS (
        SELECT FROM {schema}.active WHERE job = p_key AND (fence <> p_fence OR nonce <> p_nonce)
    ) THEN
        v_is_locked := {lock_soon}(p_queue, p_key, 200);
    ELSE
        PERFORM {lock_jobs}(p_queue, ARRAY[p_key]);
    END IF;
    IF NOT EXISTS (SELECT FROM {schema}.job WHERE queue = p_queue AND key = p_key) THEN
        RETURN 6;
    END IF;
    IF p_sweep AND NOT v_is_locked THEN
        RETURN 3;
    END IF;
    IF EXISTS (SELECT FROM {schema}.attempt WHERE job = p_key AND settled_by = p_settlement)
        OR EXISTS (SELECT FROM {schema}.ended WHERE job = p_key AND settled_by = p_settlement) THEN
        RETURN 2;
    END IF;
    SELECT * INTO v_active FROM {schema}.active WHERE job = p_key AND fence = p_fence AND nonce = p_nonce;
    IF v_active.job IS NULL THEN
        IF NOT p_sweep THEN
            PERFORM {refuse}(
                p_queue, p_key, p_now, p_fence,
                ('{completed,retried,failed,released,snoozed,cancelled,stalled}'::text[])[p_outcome]
            ) WHERE v_is_locked;
        END IF;
        RETURN 5;
    END IF;
    IF p_sweep AND v_active.lease_until_ms > p_now THEN
        RETURN 3;
    END IF;
    IF v_active.cancel_requested AND NOT p_seen THEN
        RETURN 4;
    END IF;
    RAISE EXCEPTION 'the job moved while its settlement was compared' USING ERRCODE = '40001';
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
