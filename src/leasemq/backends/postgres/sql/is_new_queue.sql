-- Answer whether a queue is not registered yet, and this transaction would see it if somebody else registered it now.
-- In: p_queue
-- Out: whether it is so
CREATE FUNCTION {self}(p_queue text)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN current_setting('transaction_isolation') = 'read committed'
        AND NOT EXISTS (SELECT FROM {schema}.queue AS q WHERE q.name = p_queue);
END
$$;
