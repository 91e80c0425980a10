-- Answer the time of this step: the clock that a test gives, else the server's own, which goes on within a
-- transaction.
-- In: p_now
-- Out: milliseconds since 1970, UTC
CREATE FUNCTION {self}(p_now bigint)
RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, floor(extract(EPOCH FROM clock_timestamp()) * 1000)::bigint)
$$;
