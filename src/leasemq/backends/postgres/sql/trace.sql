-- Add an entry to the trail of each of these jobs that keeps one, in the state that it is in now, and forget its
-- oldest beyond what it keeps. The jobs are locked by the caller.
-- In: p_queue, p_keys, p_kinds (code of EventKind, or 19 for a log line; one for all, or one each), p_value, p_now
-- Out: nothing
CREATE FUNCTION {self}(p_queue integer, p_keys bigint[], p_kinds smallint[], p_value bytea, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r record;
    v_number integer;
BEGIN
    FOR r IN
        SELECT u.key, coalesce(p_kinds[u.n], p_kinds[1]) AS kind, s.attempts, s.state, j.trail
        FROM unnest(p_keys) WITH ORDINALITY AS u (key, n)
        CROSS JOIN LATERAL (
            SELECT attempts, state FROM {schema}.stand WHERE job = u.key AND flags & 16 <> 0 LIMIT 1
        ) AS s
        CROSS JOIN LATERAL (SELECT trail FROM {schema}.job WHERE queue = p_queue AND key = u.key LIMIT 1) AS j
        ORDER BY u.n
    LOOP
        SELECT max(number) INTO v_number FROM {schema}.trail WHERE job = r.key;
        v_number := coalesce(v_number, 0) + 1;
        INSERT INTO {schema}.trail (job, number, at_ms, attempt, kind, state, value)
        VALUES (r.key, v_number, p_now, r.attempts, r.kind, r.state, p_value);
        DELETE FROM {schema}.trail WHERE job = r.key AND number <= v_number - r.trail;
    END LOOP;
END
$$;
