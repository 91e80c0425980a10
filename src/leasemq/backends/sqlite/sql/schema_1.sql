-- Create version 1 of the store: a narrow job row that changes, a body that does not, and what hangs on
-- them. Tables whose rows may be large keep their rowid: without it SQLite reads a large row whole, overflow
-- pages and all, whenever it compares its key (https://sqlite.org/withoutrowid.html, section 4).
-- In: none
-- Out: nothing

CREATE TABLE leasemq_store (
    namespace TEXT PRIMARY KEY,
    store_id TEXT NOT NULL
) WITHOUT ROWID;

-- One row per queue: its name, its switches, the last numbers given, and the stored counts.
CREATE TABLE leasemq_queue (
    key INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    resumes INTEGER NOT NULL DEFAULT 0,
    suspect_incarnation TEXT NOT NULL DEFAULT '',
    suspect_until_ms INTEGER NOT NULL DEFAULT 0,
    place INTEGER NOT NULL DEFAULT 0,
    newest_key INTEGER NOT NULL DEFAULT 0,
    event_number INTEGER NOT NULL DEFAULT 0,
    event_floor INTEGER NOT NULL DEFAULT 0,
    follow_up INTEGER NOT NULL DEFAULT 0,
    accepted INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    scheduled INTEGER NOT NULL DEFAULT 0,
    waiting INTEGER NOT NULL DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 0,
    blocked INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    expired INTEGER NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
);

-- The hot row. Its key grows with acceptance. The newest attempt lives here (number = attempts) until the
-- next claim moves it to leasemq_attempt, so that a job which succeeds at once never writes an attempt row;
-- its result comes last, where it is in nobody's way, for the same reason.
CREATE TABLE leasemq_job (
    key INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    state TEXT NOT NULL,
    suspect INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL,
    place INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    stalls INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    nonce TEXT NOT NULL DEFAULT '',
    lease_until_ms INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    frees_key INTEGER NOT NULL DEFAULT 0,
    dependants INTEGER NOT NULL DEFAULT 0,
    replays INTEGER NOT NULL DEFAULT 0,
    settled_by INTEGER,
    due_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    created_ms INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    incarnation TEXT NOT NULL DEFAULT '',
    worker TEXT NOT NULL DEFAULT '',
    claim_place INTEGER NOT NULL DEFAULT 0,
    claimed_ms INTEGER NOT NULL DEFAULT 0,
    renewed_ms INTEGER NOT NULL DEFAULT 0,
    attempt_replay INTEGER NOT NULL DEFAULT 0,
    attempt_ended_ms INTEGER,
    attempt_outcome TEXT,
    attempt_failed INTEGER NOT NULL DEFAULT 0,
    ended_ms INTEGER,
    keep_until_ms INTEGER,
    result_until_ms INTEGER,
    prune_ms INTEGER,
    reason TEXT,
    request INTEGER NOT NULL DEFAULT 0,
    replay_request INTEGER,
    replay_starts INTEGER NOT NULL DEFAULT 0,
    result BLOB
);

CREATE UNIQUE INDEX leasemq_job_id ON leasemq_job (queue, id);
CREATE INDEX leasemq_job_queue ON leasemq_job (queue);
CREATE INDEX leasemq_job_ready ON leasemq_job (queue, suspect, priority DESC,
place) WHERE state = 'waiting';
CREATE INDEX leasemq_job_due ON leasemq_job (queue, due_ms, place) WHERE state = 'scheduled';
CREATE INDEX leasemq_job_blocked ON leasemq_job (queue) WHERE state = 'blocked';
CREATE INDEX leasemq_job_ttl ON leasemq_job (queue, expires_ms)
WHERE expires_ms IS NOT NULL AND state IN ('scheduled', 'waiting', 'blocked');
CREATE INDEX leasemq_job_lease ON leasemq_job (queue, lease_until_ms, claim_place, priority DESC, place)
WHERE state = 'active';
CREATE INDEX leasemq_job_nonce ON leasemq_job (queue, nonce) WHERE state = 'active';
CREATE INDEX leasemq_job_prune ON leasemq_job (queue, prune_ms, place) WHERE prune_ms IS NOT NULL;
CREATE INDEX leasemq_job_ended ON leasemq_job (queue, state, ended_ms) WHERE ended_ms IS NOT NULL;

-- The cold row: what was asked for. Written once, but for a replacement of a payload that has not started.
CREATE TABLE leasemq_body (
    job INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    payload BLOB NOT NULL,
    overrides BLOB NOT NULL,
    headers BLOB NOT NULL,
    max_stalls INTEGER NOT NULL,
    keep_result_ms INTEGER NOT NULL,
    keep_record_ms INTEGER NOT NULL,
    keep_dead_ms INTEGER NOT NULL,
    ttl_ms INTEGER,
    unique_key TEXT,
    unique_mode TEXT,
    unique_until TEXT,
    unique_window_ms INTEGER,
    creator_queue TEXT,
    creator_id TEXT,
    creator_generation INTEGER
);

-- Values that a job may come to have before its end: error, progress, checkpoint.
CREATE TABLE leasemq_value (
    job INTEGER NOT NULL,
    kind TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (job, kind)
);

CREATE TABLE leasemq_attempt (
    job INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    number INTEGER NOT NULL,
    worker TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    claimed_ms INTEGER NOT NULL,
    renewed_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    outcome TEXT,
    error BLOB,
    replay INTEGER NOT NULL,
    settled_by INTEGER,
    PRIMARY KEY (job, fence)
);

CREATE TABLE leasemq_refused (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    write TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

CREATE TABLE leasemq_log (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    line BLOB NOT NULL,
    PRIMARY KEY (job, number)
);

-- Who holds a unique key. It may outlive its job: a throttle is freed by its window only.
CREATE TABLE leasemq_hold (
    queue INTEGER NOT NULL,
    unique_key TEXT NOT NULL,
    id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    until_ms INTEGER,
    PRIMARY KEY (queue, unique_key)
) WITHOUT ROWID;

CREATE INDEX leasemq_hold_until ON leasemq_hold (queue, until_ms) WHERE until_ms IS NOT NULL;

-- Ids that were merged into another job.
CREATE TABLE leasemq_alias (
    queue INTEGER NOT NULL,
    id TEXT NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;

CREATE INDEX leasemq_alias_job ON leasemq_alias (job);

-- Parents that a job still waits for, in the order given.
CREATE TABLE leasemq_parent (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    queue TEXT NOT NULL,
    id TEXT NOT NULL,
    on_failure TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

-- Jobs that wait for this one, in the order in which they attached.
CREATE TABLE leasemq_dependant (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    queue TEXT NOT NULL,
    id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    on_failure TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

CREATE TABLE leasemq_outbox (
    queue INTEGER NOT NULL,
    id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    child_queue TEXT NOT NULL,
    child_id TEXT NOT NULL,
    child_generation INTEGER NOT NULL,
    parent_queue TEXT,
    parent_id TEXT,
    parent_generation INTEGER,
    on_failure TEXT NOT NULL,
    outcome TEXT,
    job BLOB,
    PRIMARY KEY (queue, id)
);

-- One row per step that changed anything: events first_number to last_number, packed.
CREATE TABLE leasemq_event (
    queue INTEGER NOT NULL,
    last_number INTEGER NOT NULL,
    first_number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    entries BLOB NOT NULL,
    PRIMARY KEY (queue, last_number)
);

CREATE TABLE leasemq_worker (
    namespace TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    info BLOB NOT NULL,
    PRIMARY KEY (namespace, incarnation)
) WITHOUT ROWID;

CREATE TABLE leasemq_schedule (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    spec BLOB NOT NULL,
    cursor_ms INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
