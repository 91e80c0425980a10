-- Push the deadlines of leases that are held, whatever their deadline was; note the stale writes of the others.
-- In: p_now, p_queue, p_ids, p_fences, p_nonces, p_lease_ms
-- Out: answers in the same order: 1 held, 2 cancel requested, 3 lost
CREATE FUNCTION {self}(
    p_now bigint, p_queue text, p_ids text[], p_fences bigint[], p_nonces text[], p_lease_ms bigint
) RETURNS smallint[] LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := {now_ms}(p_now);
    v_queue integer := {queue_key}(p_queue);
    v_answers smallint[] := array_fill(3::smallint, ARRAY[cardinality(p_ids)]);
    v_held bigint[] := '{}';
    v_wait_ms integer;
    r record;
BEGIN
    FOR r IN
        SELECT u.n, a.job, a.cancel_requested FROM (
            SELECT i.n, j.key, i.fence, i.nonce
            FROM unnest(p_ids, p_fences, p_nonces) WITH ORDINALITY AS i (id, fence, nonce, n)
            CROSS JOIN LATERAL (
                SELECT k.key FROM {schema}.job AS k WHERE k.queue = v_queue AND k.id = i.id LIMIT 1
            ) AS j
            ORDER BY j.key
        ) AS u
        CROSS JOIN LATERAL (
            SELECT f.job, f.cancel_requested FROM {schema}.active AS f
            WHERE f.job = u.key AND f.fence = u.fence AND f.nonce = u.nonce FOR UPDATE
        ) AS a
    LOOP
        v_held := v_held || r.job;
        v_answers[r.n] := CASE WHEN r.cancel_requested THEN 2 ELSE 1 END;
    END LOOP;
    UPDATE {schema}.active SET lease_until_ms = v_now + p_lease_ms, renewed_ms = v_now WHERE job = ANY (v_held);
    IF 3 = ANY (v_answers) THEN
        -- Who holds leases keeps nobody waiting for them: those who wait for one another would all wait in vain.
        v_wait_ms := CASE WHEN cardinality(v_held) > 0 THEN 1 ELSE 200 END;
        FOR r IN
            SELECT k.key, i.fence FROM unnest(p_ids, p_fences, v_answers) AS i (id, fence, answer)
            JOIN {schema}.job AS k ON k.queue = v_queue AND k.id = i.id
            WHERE i.answer = 3 ORDER BY k.key
        LOOP
            -- Who has it locked for long runs it now; the leases that are held must not wait for that.
            IF {lock_soon}(v_queue, r.key, v_wait_ms) THEN
                PERFORM {refuse}(v_queue, r.key, v_now, r.fence, 'renew');
            ELSE
                v_wait_ms := 1;
            END IF;
        END LOOP;
    END IF;
    RETURN v_answers;
END
$$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan;
