-- Answer whether it is this process that does a piece of work now: nobody has begun it for a while.
-- In: p_name, p_every_ms (by the server's own clock, whatever a test's says)
-- Out: one row if so
CREATE FUNCTION {self}(p_name text, p_every_ms bigint)
RETURNS SETOF boolean LANGUAGE sql VOLATILE AS $$
    INSERT INTO {schema}.chore AS c (name, begun_ms) VALUES (p_name, {now_ms}(NULL))
    ON CONFLICT (name) DO UPDATE SET begun_ms = excluded.begun_ms WHERE c.begun_ms <= excluded.begun_ms - p_every_ms
    RETURNING true
$$;
