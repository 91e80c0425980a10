-- Show a life of a worker no more.
-- In: p_incarnation
-- Out: nothing
CREATE FUNCTION {self}(p_incarnation text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM {schema}.worker WHERE incarnation = p_incarnation;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
