-- Answer whether a queue is not registered yet, and this transaction would see it if somebody else registered it now.
-- In: p_queue
-- Out: whether it is so; null: it is not registered, and this transaction would not see it
CREATE FUNCTION {self}(p_queue text)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF EXISTS (SELECT FROM {schema}.queue AS q WHERE q.name = p_queue) THEN
        RETURN false;
    END IF;
    RETURN CASE WHEN current_setting('transaction_isolation') = 'read committed' THEN true END;
END
$$;
