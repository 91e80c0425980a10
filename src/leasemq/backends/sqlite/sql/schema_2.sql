-- Create version 2 of the store: a job's own trail, results that outlive their record, and more counters.
-- In: none
-- Out: nothing

-- How many entries of its trail a job keeps (0: none), and the last note of its newest attempt.
ALTER TABLE leasemq_job ADD COLUMN trail INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leasemq_job ADD COLUMN noted INTEGER NOT NULL DEFAULT 0;

-- The last event of the queue before the job's first, so that whoever reads its events begins there.
ALTER TABLE leasemq_body ADD COLUMN born INTEGER NOT NULL DEFAULT 0;

-- What happened since the queue was first used; these only grow.
ALTER TABLE leasemq_queue ADD COLUMN refused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leasemq_queue ADD COLUMN stalls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leasemq_queue ADD COLUMN releases INTEGER NOT NULL DEFAULT 0;

-- A job's own history, kept only if it was asked for: changes of state, progress and log lines, in order.
CREATE TABLE leasemq_trail (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    kind TEXT NOT NULL,
    state TEXT,
    value BLOB,
    PRIMARY KEY (job, number)
);

-- Results whose record is gone, or made way for the next life of the id.
CREATE TABLE leasemq_slip (
    queue INTEGER NOT NULL,
    id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    task TEXT NOT NULL,
    result BLOB NOT NULL,
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (queue, id, generation)
);

CREATE INDEX leasemq_slip_until ON leasemq_slip (queue, until_ms);
