-- Fill a queue with {jobs} stored jobs in every state, as years of work would have left them.
-- In: none
-- Out: nothing
INSERT INTO {s}.queue (name) VALUES ('stock');
INSERT INTO {s}.feed (queue) SELECT key FROM {s}.queue WHERE name = 'stock';
INSERT INTO {s}.job (
    key, queue, generation, priority, max_stalls, trail, born_index, born_seq, created_ms, request, keep_result_ms,
    keep_record_ms, keep_dead_ms, id, task, overrides, headers, payload
)
SELECT n, q.key, 1, n % 5, 2, 0, 0, n, {now}, 0, 86400000, 172800000, 2592000000, 'job-' || n, 'tests.send', '', '',
    convert_to(repeat('x', 100), 'UTF8')
FROM {s}.queue AS q, generate_series(1, {jobs}) AS n WHERE q.name = 'stock';
INSERT INTO {s}.ready (
    job, place, queue, rank, suspect, flags, attempts, failures, stalls, fence, since_ms, due_ms, expires_ms
)
SELECT key, key, queue, -priority, key % 1000 = 0, 1, 1, 1, 0, 1, {now}, {now},
    CASE WHEN key % 20 = 1 THEN {now} + 3600000 + key END
FROM {s}.job WHERE key % 10 < 4;
INSERT INTO {s}.scheduled (
    job, place, queue, blocked, suspect, flags, attempts, failures, stalls, fence, due_ms, expires_ms
)
SELECT key, key, queue, key % 10 = 6, false, 1, 0, 0, 0, 0, {now} + 3600000 + key,
    CASE WHEN key % 20 = 4 THEN {now} + 7200000 + key END
FROM {s}.job WHERE key % 10 BETWEEN 4 AND 6;
INSERT INTO {s}.ended (
    job, place, queue, state, outcome, suspect, cancel_requested, replay, flags, attempts, failures, stalls, fence,
    due_ms, ended_ms, keep_until_ms, prune_ms, claimed_ms, renewed_ms, settled_by, worker, incarnation, result
)
SELECT key, key, queue, 5 + key % 4, 1 + key % 3, false, false, false, 1, 2, 0, 0, 2, {now}, {now} + key,
    {now} + 90000000 + key, {now} + 90000000 + key, {now}, {now}, key, 'w', 'w-1', '\x3432'
FROM {s}.job WHERE key % 10 > 6;
INSERT INTO {s}.extra (job, replays, reason) SELECT key, 0, 'dead' FROM {s}.job;
INSERT INTO {s}.attempt (
    job, fence, number, outcome, replay, claimed_ms, renewed_ms, ended_ms, settled_by, worker, incarnation
)
SELECT key, 1, 1, 2, false, {now}, {now}, {now}, key, 'w', 'w-1' FROM {s}.job WHERE key % 10 NOT BETWEEN 4 AND 6;
INSERT INTO {s}.parent (job, number, queue, id, on_failure)
SELECT key, 1, 'elsewhere', 'p', 'fail' FROM {s}.job WHERE key % 10 = 6;
INSERT INTO {s}.dependant (job, number, queue, id, generation, on_failure)
SELECT key, 1, 'elsewhere', 'c', 1, 'fail' FROM {s}.job WHERE key % 50 = 0;
INSERT INTO {s}.hold (queue, key, id, generation) SELECT queue, 'key-' || key, id, 1 FROM {s}.job WHERE key % 10 < 4;
INSERT INTO {s}.slip (queue, id, generation, until_ms, task, result)
SELECT queue, 'gone-' || key, 1, {now} + 3600000 + key, 'tests.send', '\x3432' FROM {s}.job WHERE key % 10 = 0;
INSERT INTO {s}.outbox (queue, kind, child_queue, child_id, child_generation, parent_queue, parent_id, parent_generation)
SELECT queue, 'attach', 'elsewhere', id, 1, 'elsewhere', 'p', 0 FROM {s}.job WHERE key % 50 = 6;
INSERT INTO {s}.event (queue, count, seq, first, at_ms, ids, lives, whats, attempts)
SELECT q.key, 10, nextval('{s}.event_seq'), CASE WHEN n % 2 = 0 THEN n * 10 + 1 END, {now},
    ARRAY(SELECT 'job-' || n * 10 + i FROM generate_series(1, 10) AS i), '{1}', '{12}', '{0}'
FROM {s}.queue AS q, generate_series(0, {jobs} / 10 - 1) AS n WHERE q.name = 'stock';
UPDATE {s}.event SET first = (seq - 1) * 10 + 1 WHERE seq <= {jobs} / 20;
UPDATE {s}.event SET first = NULL WHERE seq > {jobs} / 20;
UPDATE {s}.feed SET numbered = 10 * ({jobs} / 20);
INSERT INTO {s}.tally (queue, accepted, scheduled, waiting, blocked, completed, failed, cancelled, expired, slips)
SELECT s.queue, count(*), count(*) FILTER (WHERE s.state = 1), count(*) FILTER (WHERE s.state = 2),
    count(*) FILTER (WHERE s.state = 4), count(*) FILTER (WHERE s.state = 5), count(*) FILTER (WHERE s.state = 6),
    count(*) FILTER (WHERE s.state = 7), count(*) FILTER (WHERE s.state = 8), {jobs} / 10
FROM {s}.stand AS s GROUP BY s.queue;
SELECT setval('{s}.place', {jobs} + 1);
