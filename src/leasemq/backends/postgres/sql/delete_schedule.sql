-- Delete a schedule.
-- In: p_name
-- Out: whether there was one
CREATE FUNCTION {self}(p_name text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM {schema}.schedule WHERE name = p_name;
    RETURN FOUND;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
