-- Coding sessions. Their events stand in audit_log under the session's id; `seq` numbers them, over restarts too.
CREATE TABLE coding_sessions (
    session_id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    spec_json TEXT NOT NULL,       -- the request, whole
    state TEXT NOT NULL,
    code TEXT NOT NULL,            -- why it ended
    reason TEXT NOT NULL,
    exit_code INTEGER,
    checkout_json TEXT,            -- NULL before there is one, and after it was removed
    action_id TEXT NOT NULL,       -- the action that started it
    started_by TEXT NOT NULL,      -- the device or terminal that asked for it
    seq INTEGER NOT NULL,
    agent_seconds INTEGER NOT NULL,
    terminal_kb INTEGER NOT NULL,
    files_touched INTEGER NOT NULL,
    metered_at TEXT,               -- up to when its time was added to its usage
    created_at TEXT NOT NULL,
    started_at TEXT,
    ended_at TEXT
);
CREATE INDEX coding_sessions_by_state ON coding_sessions (state);
CREATE INDEX coding_sessions_by_org ON coding_sessions (org_id, created_at);

-- What sessions used, by month: written with the tick that tells it.
CREATE TABLE session_usage (
    org_id TEXT NOT NULL,
    month TEXT NOT NULL,
    provider TEXT NOT NULL,
    agent_seconds INTEGER NOT NULL,
    terminal_kb INTEGER NOT NULL,
    files_touched INTEGER NOT NULL,
    PRIMARY KEY (org_id, month, provider)
);

-- Runner tokens: short-lived, narrower than the device that asked for them, and gone with it. Only hashes are kept.
CREATE TABLE runner_tokens (
    token_id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    device_id TEXT NOT NULL REFERENCES devices (device_id),
    org_id TEXT NOT NULL,
    repo_id TEXT,                  -- NULL: every repository of the organization
    session_id TEXT,               -- NULL: every session
    access TEXT NOT NULL CHECK (access IN ('watch', 'drive')),
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
CREATE INDEX runner_tokens_device ON runner_tokens (device_id);
