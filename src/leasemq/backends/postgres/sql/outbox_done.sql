-- Forget follow-ups that were carried out.
-- In: p_queue, p_ids
-- Out: nothing
CREATE FUNCTION {self}(p_queue text, p_ids bigint[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer := {queue_key}(p_queue);
BEGIN
    DELETE FROM {schema}.outbox AS o USING (
        SELECT x.id FROM {schema}.outbox AS x WHERE x.queue = v_queue AND x.id = ANY(p_ids)
        ORDER BY x.id FOR UPDATE
    ) AS f
    WHERE o.queue = v_queue AND o.id = f.id;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
