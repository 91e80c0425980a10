-- Settle, then claim, in one step.
-- In: p_now, p_channel, p_queue, p_settlements, p_ids, p_generations, p_fences, p_nonces, p_outcomes, p_states,
-- p_failures, p_stalls, p_sweeps, p_seens, p_delays, p_suspects, p_results, p_errors, p_reasons, p_keeps,
-- p_result_keeps (all as settle.sql), p_limit, p_lease_ms, p_worker, p_incarnation, p_nonce, p_takes_suspect (as
-- claim.sql)
-- Out: as claim.sql, after the answers of settle.sql, which the row without an id has
CREATE FUNCTION {self}(
    p_now bigint, p_channel text, p_queue text, p_settlements bigint[], p_ids text[], p_generations integer[],
    p_fences bigint[], p_nonces text[], p_outcomes smallint[], p_states smallint[], p_failures integer[],
    p_stalls integer[], p_sweeps boolean[], p_seens boolean[], p_delays bigint[], p_suspects boolean[],
    p_results bytea[], p_errors bytea[], p_reasons text[], p_keeps bigint[], p_result_keeps bigint[],
    p_limit integer, p_lease_ms bigint, p_worker text, p_incarnation text, p_nonce text, p_takes_suspect boolean
) RETURNS TABLE (
    id text, generation integer, fence bigint, task text, payload bytea, attempts integer, failures integer,
    stalls integer, max_stalls integer, keep_result_ms bigint, keep_record_ms bigint, keep_dead_ms bigint,
    created_ms bigint, lease_until_ms bigint, suspect boolean, cancel_requested boolean, checkpoint bytea,
    overrides bytea, headers bytea, incarnation text, answers smallint[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_answers smallint[];
BEGIN
    v_answers := {settle}(
        p_now, p_channel, p_queue, p_settlements, p_ids, p_generations, p_fences, p_nonces, p_outcomes, p_states,
        p_failures, p_stalls, p_sweeps, p_seens, p_delays, p_suspects, p_results, p_errors, p_reasons, p_keeps,
        p_result_keeps
    );
    RETURN QUERY SELECT c.*, CASE WHEN c.id IS NULL THEN v_answers END FROM {claim}(
        p_now, p_channel, p_queue, p_limit, p_lease_ms, p_worker, p_incarnation, p_nonce, p_takes_suspect
    ) AS c;
END
$$;
