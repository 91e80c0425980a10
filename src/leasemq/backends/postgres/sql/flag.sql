-- Set a flag of a job, wherever it is. The job is locked by the caller.
-- In: p_key, p_flag
-- Out: nothing
CREATE FUNCTION {self}(p_key bigint, p_flag smallint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {schema}.active SET flags = flags | p_flag WHERE job = p_key AND flags & p_flag <> p_flag;
    UPDATE {schema}.ready SET flags = flags | p_flag WHERE job = p_key AND flags & p_flag <> p_flag;
    UPDATE {schema}.scheduled SET flags = flags | p_flag WHERE job = p_key AND flags & p_flag <> p_flag;
    UPDATE {schema}.ended SET flags = flags | p_flag WHERE job = p_key AND flags & p_flag <> p_flag;
END
$$;
