-- Show a life of a worker until its time is over, and forget those whose time is.
-- In: p_now, p_incarnation, p_worker, p_ttl_ms, p_info (packed)
-- Out: nothing
CREATE FUNCTION {self}(p_now bigint, p_incarnation text, p_worker text, p_ttl_ms bigint, p_info bytea)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := {now_ms}(p_now);
BEGIN
    INSERT INTO {schema}.worker (incarnation, worker, seen_ms, until_ms, info)
    VALUES (p_incarnation, p_worker, v_now, v_now + p_ttl_ms, p_info)
    ON CONFLICT (incarnation) DO UPDATE SET
        worker = excluded.worker, seen_ms = excluded.seen_ms, until_ms = excluded.until_ms, info = excluded.info;
    DELETE FROM {schema}.worker AS w USING (
        SELECT o.incarnation FROM {schema}.worker AS o
        WHERE o.until_ms <= v_now AND o.incarnation <> p_incarnation
        ORDER BY o.incarnation FOR UPDATE SKIP LOCKED
    ) AS f
    WHERE w.incarnation = f.incarnation;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
