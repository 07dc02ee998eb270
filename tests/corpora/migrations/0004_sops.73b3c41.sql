-- Runs of SOPs: where each stands, and what its steps left.

CREATE TABLE sop_runs (
    run_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    -- The hash of the file, and the steps as they were when the run began: a changed file does not change a run.
    file_hash TEXT NOT NULL,
    sop_json TEXT NOT NULL CHECK (length(CAST(sop_json AS BLOB)) <= 524288),
    state TEXT NOT NULL CHECK (state IN ('RUNNING', 'WAITING', 'DONE', 'FAILED')),
    reason TEXT NOT NULL DEFAULT '',
    -- The step it stands at, counted from 0.
    position INTEGER NOT NULL DEFAULT 0,
    thread_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    job_id TEXT UNIQUE REFERENCES jobs (job_id),
    file_label TEXT NOT NULL,
    fresh_json TEXT NOT NULL DEFAULT '[]',
    inherited_json TEXT NOT NULL DEFAULT '[]',
    -- Whoever works on it; its lock is held for as long.
    worker TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE INDEX sop_runs_recent ON sop_runs (created_at);

CREATE TABLE sop_steps (
    run_id TEXT NOT NULL REFERENCES sop_runs (run_id),
    step_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('RUNNING', 'WAITING', 'HELD', 'SUCCEEDED', 'FAILED', 'SKIPPED')),
    -- Part of the key of its call; grows with every try. `failures` are the tries that count against its retries.
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    retriable INTEGER NOT NULL DEFAULT 0,
    action_id TEXT,
    code TEXT NOT NULL DEFAULT '',
    output TEXT NOT NULL DEFAULT '' CHECK (length(CAST(output AS BLOB)) <= 65536),
    output_hash TEXT NOT NULL DEFAULT '',
    artifact_id TEXT,
    label TEXT NOT NULL DEFAULT 'internal',
    started_at TEXT NOT NULL,
    ended_at TEXT,
    PRIMARY KEY (run_id, step_id)
) WITHOUT ROWID;
