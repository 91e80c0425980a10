-- Answer the names of all queues that ever accepted a job or are paused, sorted by bytes.
-- In: nothing
-- Out: name
CREATE FUNCTION {self}()
RETURNS TABLE (name text) LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT q.name FROM {schema}.queue AS q
    WHERE q.paused OR EXISTS (SELECT FROM {schema}.tally AS t WHERE t.queue = q.key AND t.accepted > 0)
    ORDER BY q.name;
END
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
