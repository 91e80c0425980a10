-- Note a stale write on its job, which changes nothing else; the newest 20 are kept. The job is locked by the caller.
-- In: p_queue, p_key, p_now, p_fence (the number that was shown), p_write (what was tried)
-- Out: nothing
CREATE FUNCTION {self}(p_queue integer, p_key bigint, p_now bigint, p_fence bigint, p_write text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_number integer;
BEGIN
    SELECT max(number) INTO v_number FROM {schema}.refused WHERE job = p_key;
    v_number := coalesce(v_number, 0) + 1;
    INSERT INTO {schema}.refused (job, number, at_ms, fence, write)
    VALUES (p_key, v_number, p_now, p_fence, p_write);
    DELETE FROM {schema}.refused WHERE job = p_key AND number <= v_number - 20;
    INSERT INTO {schema}.tally (queue, refused) VALUES (p_queue, 1);
    PERFORM {flag}(p_key, 1::smallint);
END
$$;
