-- Create the first version of the store: a cold job row, one narrow row that says where the job is, and what
-- hangs on them. Codes are the places of the words in `State`, `EventKind` and `Outcome`, from 1.
-- In: none
-- Out: nothing

CREATE SEQUENCE {schema}.place;
CREATE SEQUENCE {schema}.event_seq;

CREATE TABLE {schema}.store (
    store_id text NOT NULL
);

-- One row per queue that ever accepted a job, was paused, or is listened to. No batch writes to it.
CREATE TABLE {schema}.queue (
    key integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    paused boolean NOT NULL DEFAULT false,
    suspect_incarnation text NOT NULL DEFAULT '',
    suspect_until_ms bigint NOT NULL DEFAULT 0
);

-- What was asked for. Its key is its place in the order of acceptance. Written once, but for a payload that is
-- replaced and a priority that is changed before the job has started.
CREATE TABLE {schema}.job (
    key bigint NOT NULL,
    queue integer NOT NULL,
    generation integer NOT NULL,
    priority smallint NOT NULL,
    max_stalls integer NOT NULL,
    trail integer NOT NULL,
    born_index integer NOT NULL,
    born_seq bigint NOT NULL,
    created_ms bigint NOT NULL,
    ttl_ms bigint,
    request bigint NOT NULL,
    keep_result_ms bigint NOT NULL,
    keep_record_ms bigint NOT NULL,
    keep_dead_ms bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    unique_key text COLLATE "C",
    unique_mode text,
    unique_until text,
    unique_window_ms bigint,
    creator_queue text,
    creator_id text,
    creator_generation integer,
    overrides bytea NOT NULL,
    headers bytea NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (queue, key)
);
CREATE UNIQUE INDEX job_id ON {schema}.job (queue, id);

-- Where a job is: it has a row in one of these four tables, which is also the lock on the job.
-- flags: 1 something hangs on the job · 2 its key is freed at its start · 4 its key is freed at its end ·
-- 8 dependants · 16 a trail · 32 the next attempt is the first after a replay
CREATE TABLE {schema}.ready (
    job bigint PRIMARY KEY,
    place bigint NOT NULL,
    queue integer NOT NULL,
    rank smallint NOT NULL,
    suspect boolean NOT NULL,
    flags smallint NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    stalls integer NOT NULL,
    fence bigint NOT NULL,
    since_ms bigint NOT NULL,
    due_ms bigint NOT NULL,
    expires_ms bigint
);
CREATE UNIQUE INDEX ready_order ON {schema}.ready (queue, suspect, rank, place);
CREATE INDEX ready_ttl ON {schema}.ready (queue, expires_ms, job) WHERE expires_ms IS NOT NULL;

CREATE TABLE {schema}.scheduled (
    job bigint PRIMARY KEY,
    place bigint NOT NULL,
    queue integer NOT NULL,
    blocked boolean NOT NULL,
    suspect boolean NOT NULL,
    flags smallint NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    stalls integer NOT NULL,
    fence bigint NOT NULL,
    due_ms bigint NOT NULL,
    expires_ms bigint
);
CREATE UNIQUE INDEX scheduled_due ON {schema}.scheduled (queue, due_ms, place) WHERE NOT blocked;
CREATE UNIQUE INDEX scheduled_blocked ON {schema}.scheduled (queue, job) WHERE blocked;
CREATE INDEX scheduled_ttl ON {schema}.scheduled (queue, expires_ms, job) WHERE expires_ms IS NOT NULL;

CREATE TABLE {schema}.active (
    job bigint PRIMARY KEY,
    place bigint NOT NULL,
    queue integer NOT NULL,
    suspect boolean NOT NULL,
    cancel_requested boolean NOT NULL DEFAULT false,
    replay boolean NOT NULL,
    flags smallint NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    stalls integer NOT NULL,
    noted integer NOT NULL DEFAULT 0,
    fence bigint NOT NULL,
    due_ms bigint NOT NULL,
    expires_ms bigint,
    claimed_ms bigint NOT NULL,
    renewed_ms bigint NOT NULL,
    lease_until_ms bigint NOT NULL,
    nonce text COLLATE "C" NOT NULL,
    worker text NOT NULL,
    incarnation text NOT NULL
);
CREATE INDEX active_lease ON {schema}.active (queue, lease_until_ms);
CREATE INDEX active_nonce ON {schema}.active (queue, nonce);

-- The end of a job, with the attempt that ended it (claimed_ms is null where none did). `error` is that attempt's
-- own, and wins over extra's; `reason` is the job's, whatever extra says.
CREATE TABLE {schema}.ended (
    job bigint PRIMARY KEY,
    place bigint NOT NULL,
    queue integer NOT NULL,
    state smallint NOT NULL,
    outcome smallint,
    suspect boolean NOT NULL,
    cancel_requested boolean NOT NULL,
    replay boolean NOT NULL,
    flags smallint NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    stalls integer NOT NULL,
    fence bigint NOT NULL,
    due_ms bigint NOT NULL,
    expires_ms bigint,
    ended_ms bigint NOT NULL,
    keep_until_ms bigint NOT NULL,
    prune_ms bigint NOT NULL,
    result_until_ms bigint,
    claimed_ms bigint,
    renewed_ms bigint,
    settled_by bigint,
    worker text,
    incarnation text,
    reason text,
    error bytea,
    result bytea
);
CREATE INDEX ended_prune ON {schema}.ended (queue, prune_ms, place);
CREATE INDEX ended_state ON {schema}.ended (queue, state, ended_ms, job);

-- What hangs on a job (flag 1): values that few jobs have, earlier attempts, refused writes, log lines, the
-- trail, ids merged into it, parents that it waits for, and jobs that wait for it.
CREATE TABLE {schema}.extra (
    job bigint PRIMARY KEY,
    replays integer NOT NULL DEFAULT 0,
    replay_request bigint,
    reason text,
    error bytea,
    progress bytea,
    checkpoint bytea
);
CREATE TABLE {schema}.attempt (
    job bigint NOT NULL,
    fence bigint NOT NULL,
    number integer NOT NULL,
    outcome smallint NOT NULL,
    replay boolean NOT NULL,
    claimed_ms bigint NOT NULL,
    renewed_ms bigint NOT NULL,
    ended_ms bigint NOT NULL,
    settled_by bigint NOT NULL,
    worker text NOT NULL,
    incarnation text NOT NULL,
    error bytea,
    PRIMARY KEY (job, fence)
);
CREATE TABLE {schema}.refused (
    job bigint NOT NULL,
    number integer NOT NULL,
    at_ms bigint NOT NULL,
    fence bigint NOT NULL,
    write text NOT NULL,
    PRIMARY KEY (job, number)
);
CREATE TABLE {schema}.log (
    job bigint NOT NULL,
    number integer NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (job, number)
);
CREATE TABLE {schema}.trail (
    job bigint NOT NULL,
    number integer NOT NULL,
    at_ms bigint NOT NULL,
    attempt integer NOT NULL,
    kind smallint NOT NULL,
    state smallint NOT NULL,
    value bytea,
    PRIMARY KEY (job, number)
);
CREATE TABLE {schema}.alias (
    queue integer NOT NULL,
    id text COLLATE "C" NOT NULL,
    job bigint NOT NULL,
    PRIMARY KEY (queue, id)
);
CREATE INDEX alias_job ON {schema}.alias (job);
CREATE TABLE {schema}.parent (
    job bigint NOT NULL,
    number integer NOT NULL,
    queue text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    on_failure text NOT NULL,
    PRIMARY KEY (job, number)
);
CREATE TABLE {schema}.dependant (
    job bigint NOT NULL,
    number integer NOT NULL,
    queue text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    on_failure text NOT NULL,
    PRIMARY KEY (job, number)
);

-- Who holds a unique key. It may outlive its job: a throttle is freed by its window only.
CREATE TABLE {schema}.hold (
    queue integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    until_ms bigint,
    PRIMARY KEY (queue, key)
);
CREATE INDEX hold_until ON {schema}.hold (queue, until_ms) WHERE until_ms IS NOT NULL;

-- Results whose record is gone, or made way for the next life of the id.
CREATE TABLE {schema}.slip (
    queue integer NOT NULL,
    id text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    taken bigint NOT NULL DEFAULT nextval('{schema}.place'),
    until_ms bigint NOT NULL,
    task text NOT NULL,
    result bytea NOT NULL,
    PRIMARY KEY (queue, id, generation)
);
CREATE INDEX slip_until ON {schema}.slip (queue, until_ms, taken);

CREATE TABLE {schema}.outbox (
    id bigint GENERATED ALWAYS AS IDENTITY,
    queue integer NOT NULL,
    kind text NOT NULL,
    child_queue text NOT NULL,
    child_id text NOT NULL,
    child_generation integer NOT NULL,
    parent_queue text,
    parent_id text,
    parent_generation integer,
    on_failure text NOT NULL DEFAULT 'fail',
    outcome smallint,
    job bytea,
    PRIMARY KEY (queue, id)
);

-- One row per step that changed anything. `seq` is drawn when all its jobs are locked, so that the events of a
-- job are in order; `first` is the number of its first event in the queue's feed, given by whoever reads; `born` is
-- an earlier number, by which jobs that were stored in the step know it (job.born_seq).
-- lives, whats (kind * 10 + state, 0: the record is gone) and attempts repeat their last element.
CREATE TABLE {schema}.event (
    queue integer NOT NULL,
    count integer NOT NULL,
    seq bigint NOT NULL,
    first bigint,
    born bigint,
    at_ms bigint NOT NULL,
    ids text [] NOT NULL,
    lives integer [] NOT NULL,
    whats smallint [] NOT NULL,
    attempts integer [] NOT NULL,
    PRIMARY KEY (queue, seq)
) WITH (toast_tuple_target = 8160);
CREATE INDEX event_unread ON {schema}.event (queue, seq) WHERE first IS NULL;
CREATE INDEX event_first ON {schema}.event (queue, first) WHERE first IS NOT NULL;

CREATE TABLE {schema}.feed (
    queue integer PRIMARY KEY,
    numbered bigint NOT NULL DEFAULT 0,
    floor bigint NOT NULL DEFAULT 0
);

-- What each step added to the counts. Their sums are the counts; a sweep folds many rows into one.
CREATE TABLE {schema}.tally (
    number bigint GENERATED ALWAYS AS IDENTITY,
    queue integer NOT NULL,
    accepted bigint NOT NULL DEFAULT 0,
    removed bigint NOT NULL DEFAULT 0,
    scheduled bigint NOT NULL DEFAULT 0,
    waiting bigint NOT NULL DEFAULT 0,
    active bigint NOT NULL DEFAULT 0,
    blocked bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    expired bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    stalls bigint NOT NULL DEFAULT 0,
    releases bigint NOT NULL DEFAULT 0,
    slips bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, number)
);

CREATE TABLE {schema}.worker (
    incarnation text COLLATE "C" PRIMARY KEY,
    worker text COLLATE "C" NOT NULL,
    seen_ms bigint NOT NULL,
    until_ms bigint NOT NULL,
    info bytea NOT NULL
);
CREATE TABLE {schema}.schedule (
    name text COLLATE "C" PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    spec bytea NOT NULL,
    cursor_ms bigint NOT NULL,
    paused boolean NOT NULL
);

-- Whose end a listener wants to hear of, and which queues' events, until when; the listener renews it.
CREATE TABLE {schema}.interest (
    queue text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    listener text COLLATE "C" NOT NULL,
    until_ms bigint NOT NULL,
    PRIMARY KEY (queue, id, generation, listener)
);
CREATE TABLE {schema}.follower (
    queue text COLLATE "C" NOT NULL,
    listener text COLLATE "C" NOT NULL,
    until_ms bigint NOT NULL,
    PRIMARY KEY (queue, listener)
);
CREATE INDEX interest_listener ON {schema}.interest (listener);
CREATE INDEX follower_listener ON {schema}.follower (listener);

-- Work that one process at a time does for all, and when it was last begun.
CREATE TABLE {schema}.chore (
    name text COLLATE "C" PRIMARY KEY,
    begun_ms bigint NOT NULL
);

-- Every job where it is, whatever its state.
CREATE VIEW {schema}.stand AS
SELECT job, queue, 2::smallint AS state, place, suspect, false AS cancel_requested, flags, attempts, failures, stalls,
    fence, due_ms, expires_ms, NULL::bigint AS lease_until_ms, NULL::bigint AS ended_ms
FROM {schema}.ready
UNION ALL
SELECT job, queue, CASE WHEN blocked THEN 4 ELSE 1 END::smallint, place, suspect, false, flags, attempts, failures,
    stalls, fence, due_ms, expires_ms, NULL::bigint, NULL::bigint
FROM {schema}.scheduled
UNION ALL
SELECT job, queue, 3::smallint, place, suspect, cancel_requested, flags, attempts, failures, stalls,
    fence, due_ms, expires_ms, lease_until_ms, NULL::bigint
FROM {schema}.active
UNION ALL
SELECT job, queue, state, place, suspect, cancel_requested, flags, attempts, failures, stalls,
    fence, due_ms, expires_ms, NULL::bigint, ended_ms
FROM {schema}.ended;
