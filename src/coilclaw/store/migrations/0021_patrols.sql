-- Patrols: every run of one, what it found, and what becomes of that.
CREATE TABLE patrol_runs (
    run_id TEXT PRIMARY KEY,       -- made of its job and kind, so that a repeat is the same run
    repo TEXT NOT NULL,
    room TEXT NOT NULL,            -- a folder of the repository; empty: all of it
    kind TEXT NOT NULL,
    checkout_ref TEXT NOT NULL,    -- the commit that was asked for; empty: the repository's current branch
    base TEXT NOT NULL,            -- the commit that was looked at
    job_id TEXT NOT NULL,
    quest_id TEXT NOT NULL,        -- the quest whose branch it looks at; empty: none
    command TEXT NOT NULL,
    format TEXT NOT NULL,          -- what its output was read as
    state TEXT NOT NULL CHECK (state IN ('running', 'passed', 'failed', 'not_audited', 'error')),
    reason TEXT NOT NULL,
    passed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    findings INTEGER NOT NULL,
    seconds REAL NOT NULL,
    output TEXT NOT NULL,          -- the end of what the command wrote: anybody's words
    started_at TEXT NOT NULL,
    ended_at TEXT
);
CREATE INDEX patrol_runs_by_place ON patrol_runs (repo, room, kind, started_at);
CREATE INDEX patrol_runs_by_state ON patrol_runs (state);
CREATE INDEX patrol_runs_by_job ON patrol_runs (job_id);

-- One row for one fingerprint, however often it is seen.
CREATE TABLE patrol_alerts (
    alert_id TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    repo TEXT NOT NULL,
    room TEXT NOT NULL,
    kind TEXT NOT NULL,
    severity TEXT NOT NULL CHECK (severity IN ('info', 'warning', 'error', 'critical')),
    summary TEXT NOT NULL,
    evidence_json TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    raised_at TEXT NOT NULL,       -- when it was raised last; quests from before do not count
    last_seen TEXT NOT NULL,
    count INTEGER NOT NULL,
    run_id TEXT NOT NULL,          -- the run that saw it last: one run counts once
    state TEXT NOT NULL CHECK (state IN ('open', 'resolved')),
    resolved_at TEXT,
    resolved_by TEXT NOT NULL,     -- a run, or the owner's device
    muted_until TEXT,
    mute_reason TEXT NOT NULL
);
CREATE INDEX patrol_alerts_by_place ON patrol_alerts (state, repo, room, kind);

CREATE TABLE quests (
    quest_id TEXT PRIMARY KEY,
    alert_id TEXT NOT NULL REFERENCES patrol_alerts (alert_id),
    repo TEXT NOT NULL,
    room TEXT NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    goal TEXT NOT NULL,
    acceptance_json TEXT NOT NULL,
    approvals_json TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('offered', 'taken', 'in_review', 'done', 'dropped')),
    session_id TEXT NOT NULL,      -- who works on it; empty before it is taken
    checked TEXT NOT NULL,         -- the commit of its branch that was looked at last
    run_id TEXT NOT NULL,          -- and the run that did
    reason TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX quests_one_open ON quests (alert_id) WHERE state IN ('offered', 'taken', 'in_review');
CREATE INDEX quests_by_state ON quests (state, quest_id);

-- Deliveries of webhooks, so that each counts once; old ones are forgotten.
CREATE TABLE webhook_deliveries (
    repo TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    received_at TEXT NOT NULL,
    PRIMARY KEY (repo, delivery_id)
);

ALTER TABLE session_usage ADD COLUMN patrol_seconds INTEGER NOT NULL DEFAULT 0;
