-- Lock jobs that have ended, in the order of their keys.
-- In: p_keys, p_skips (those that somebody else has locked are left out)
-- Out: those that are still there, in the order given
CREATE FUNCTION {self}(p_keys bigint[], p_skips boolean)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_locked bigint[];
BEGIN
    IF p_skips THEN
        v_locked := ARRAY(
            SELECT e.job FROM {schema}.ended AS e WHERE e.job = ANY(p_keys) ORDER BY e.job FOR UPDATE SKIP LOCKED
        );
    ELSE
        v_locked := ARRAY(
            SELECT e.job FROM {schema}.ended AS e WHERE e.job = ANY(p_keys) ORDER BY e.job FOR UPDATE
        );
    END IF;
    IF cardinality(v_locked) = cardinality(p_keys) THEN
        RETURN p_keys;
    END IF;
    RETURN ARRAY(
        SELECT u.key FROM unnest(p_keys) WITH ORDINALITY AS u (key, n) WHERE u.key = ANY(v_locked) ORDER BY u.n
    );
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
