-- Lock a job as lock_jobs does, but wait for a moment only: a handler's own transaction may have it locked for long.
-- In: p_queue, p_key, p_wait_ms
-- Out: whether it is locked; not, if it was deleted meanwhile
CREATE FUNCTION {self}(p_queue integer, p_key bigint, p_wait_ms integer)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_timeout text := current_setting('lock_timeout');
    v_is_locked boolean := false;
BEGIN
    PERFORM set_config('lock_timeout', p_wait_ms || 'ms', true);
    BEGIN
        v_is_locked := EXISTS (SELECT FROM {lock_jobs}(p_queue, ARRAY[p_key]));
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
    PERFORM set_config('lock_timeout', v_timeout, true);
    RETURN v_is_locked;
END
$$;
