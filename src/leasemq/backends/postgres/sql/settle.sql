-- End attempts: compare what is given with what is stored, in the order that the contract gives, and write
-- everything of those that apply, together. Arrays: one element for all, one each, or null for nulls.
-- In: p_now, p_channel, p_queue, p_settlements, p_ids, p_generations, p_fences, p_nonces, p_outcomes, p_states,
-- p_failures, p_stalls, p_sweeps (by a sweep, not the holder), p_seens (seen_cancel), p_delays, p_suspects, p_results,
-- p_errors, p_reasons, p_keeps, p_result_keeps
-- Out: answers, in order: 1 applied, 2 replayed, 3 held, 4 cancel_requested, 5 lost, 6 gone
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_settlements bigint[], p_ids text[], p_generations integer[],
    p_fences bigint[], p_nonces text[], p_outcomes smallint[], p_states smallint[], p_failures integer[],
    p_stalls integer[], p_sweeps boolean[], p_seens boolean[], p_delays bigint[], p_suspects boolean[],
    p_results bytea[], p_errors bytea[], p_reasons text[], p_keeps bigint[], p_result_keeps bigint[]
) RETURNS smallint[] LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := {now_ms}(p_now);
    v_queue integer := {queue_key}(p_queue);
    v_count integer := cardinality(p_ids);
    v_keys bigint[];
    v_found bigint[];
    v_places integer[];
    v_answers smallint[] := '{}';
BEGIN
    IF v_queue IS NULL OR v_count = 0 THEN
        RETURN array_fill(6::smallint, ARRAY[v_count]);
    END IF;
    v_keys := ARRAY(
        SELECT (
            SELECT k.key FROM {schema}.job AS k
            WHERE k.queue = v_queue AND k.id = u.id AND k.generation = coalesce(u.life, p_generations[1]) LIMIT 1
        )
        FROM unnest(p_ids, p_generations) WITH ORDINALITY AS u (id, life, n) ORDER BY u.n
    );
    -- One after the other where a record goes at once, since that is told beside its end, and where a job is named
    -- twice.
    IF v_count > 1 AND (
        (SELECT count(DISTINCT u.key) < count(u.key) FROM unnest(v_keys) AS u (key))
        OR (p_keeps IS NULL OR 0 = ANY(p_keeps) OR array_position(p_keeps, NULL) IS NOT NULL) AND EXISTS (
            SELECT FROM unnest(p_states, p_keeps) AS u (state, keep)
            WHERE coalesce(u.state, p_states[1]) > 4
            AND coalesce(CASE WHEN cardinality(p_keeps) = 1 THEN p_keeps[1] ELSE u.keep END, 0) = 0
        )
    ) THEN
        p_generations := {spread}(p_generations, v_count);
        p_settlements := {spread}(p_settlements, v_count);
        p_fences := {spread}(p_fences, v_count);
        p_nonces := {spread}(p_nonces, v_count);
        p_outcomes := {spread}(p_outcomes, v_count);
        p_states := {spread}(p_states, v_count);
        p_failures := {spread}(p_failures, v_count);
        p_stalls := {spread}(p_stalls, v_count);
        p_sweeps := {spread}(p_sweeps, v_count);
        p_seens := {spread}(p_seens, v_count);
        p_delays := {spread}(p_delays, v_count);
        p_suspects := {spread}(p_suspects, v_count);
        p_results := {spread}(p_results, v_count);
        p_errors := {spread}(p_errors, v_count);
        p_reasons := {spread}(p_reasons, v_count);
        p_keeps := {spread}(p_keeps, v_count);
        p_result_keeps := {spread}(p_result_keeps, v_count);
        FOR i IN 1..v_count LOOP
            v_answers := v_answers || {self}(
                v_now, p_channel, p_queue, p_settlements[i:i], p_ids[i:i], p_generations[i:i], p_fences[i:i],
                p_nonces[i:i], p_outcomes[i:i], p_states[i:i], p_failures[i:i], p_stalls[i:i], p_sweeps[i:i], p_seens[i:i],
                p_delays[i:i], p_suspects[i:i], p_results[i:i], p_errors[i:i], p_reasons[i:i], p_keeps[i:i],
                p_result_keeps[i:i]
            );
        END LOOP;
        RETURN v_answers;
    END IF;
    v_found := v_keys;
    IF true = ANY(p_sweeps) THEN  -- a sweep waits for nobody: who has the row locked lives
        v_found := ARRAY(
            SELECT CASE WHEN u.sweep THEN a.job ELSE u.key END
            FROM unnest(v_keys, {spread}(p_sweeps, v_count)) WITH ORDINALITY AS u (key, sweep, n)
            LEFT JOIN LATERAL (
                SELECT f.job FROM {schema}.active AS f WHERE u.sweep AND f.job = u.key FOR UPDATE SKIP LOCKED
            ) AS a ON true
            ORDER BY u.n
        );
    END IF;
    v_places := {settle_all}(
        v_now, p_channel, v_queue, p_queue, v_found, p_ids, p_generations, p_settlements, p_fences, p_nonces,
        p_outcomes, p_states, p_failures, p_stalls, p_sweeps, p_seens, p_delays, p_suspects, p_results, p_errors,
        p_reasons, p_keeps, p_result_keeps
    );
    IF cardinality(v_places) = v_count THEN
        RETURN ARRAY[1::smallint];
    END IF;
    FOR i IN 1..v_count LOOP
        v_answers := v_answers || CASE WHEN i = ANY(v_places) THEN 1::smallint ELSE {settle_refused}(
            v_queue, v_keys[i], v_now, p_settlements[i], coalesce(p_fences[i], p_fences[1]),
            coalesce(p_nonces[i], p_nonces[1]), coalesce(p_outcomes[i], p_outcomes[1]),
            coalesce(p_sweeps[i], p_sweeps[1]), coalesce(p_seens[i], p_seens[1])
        ) END;
    END LOOP;
    RETURN v_answers;
END
$$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;
