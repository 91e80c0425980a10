-- Answer the server's clock.
-- In: p_now
-- Out: milliseconds since 1970, UTC
CREATE FUNCTION {self}(p_now bigint)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT {now_ms}(p_now)
$$;
