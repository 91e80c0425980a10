-- Compare a fence and lock its job until the transaction ends, so that nobody recovers it meanwhile. Changes
-- nothing, and a stale fence is not noted.
-- In: p_queue, p_id, p_fence, p_nonce
-- Out: answer: 1 held, 2 cancel_requested, 3 lost
CREATE FUNCTION {self}(p_queue text, p_id text, p_fence bigint, p_nonce text)
RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
    v_is_cancelled boolean;
BEGIN
    SELECT a.cancel_requested INTO v_is_cancelled
    FROM {schema}.active AS a
    WHERE a.job = (SELECT k.key FROM {schema}.job AS k WHERE k.queue = v_queue AND k.id = p_id LIMIT 1)
    AND a.fence = p_fence AND a.nonce = p_nonce
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 3;
    END IF;
    RETURN CASE WHEN v_is_cancelled THEN 2 ELSE 1 END;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
