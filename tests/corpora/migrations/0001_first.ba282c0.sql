-- The tables of the product, by the names and columns they were asked for, with what the conveyor and the ledger add.
-- Times are RFC 3339 in UTC to the millisecond. Labels say where content came from: owner, internal, untrusted:<source>.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE users (
    user_id TEXT PRIMARY KEY,
    email TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE devices (
    device_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (user_id),
    name TEXT,
    public_key TEXT,
    revoked_at TEXT,
    created_at TEXT NOT NULL
);

CREATE TABLE auth_tokens (
    token_id TEXT PRIMARY KEY,
    device_id TEXT NOT NULL REFERENCES devices (device_id),
    token_hash TEXT NOT NULL UNIQUE,
    expires_at TEXT NOT NULL,
    last_used_at TEXT,
    created_at TEXT NOT NULL
);

CREATE TABLE oauth_tokens (
    token_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (user_id),
    provider TEXT NOT NULL,
    identity_type TEXT NOT NULL CHECK (identity_type IN ('user', 'bot')),
    encrypted_refresh_token BLOB NOT NULL,
    scopes TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (user_id, provider, identity_type)
);

CREATE TABLE threads (
    thread_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (user_id),
    channel TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE INDEX threads_recent ON threads (updated_at DESC);

CREATE TABLE messages (
    seq INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    thread_id TEXT NOT NULL REFERENCES threads (thread_id) ON DELETE CASCADE,
    turn_id TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    content TEXT NOT NULL CHECK (length(CAST(content AS BLOB)) <= 65536),
    tool_calls TEXT NOT NULL DEFAULT '[]',
    tool_call_id TEXT NOT NULL DEFAULT '',
    action_id TEXT,
    artifact_id TEXT,
    provider TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    label TEXT NOT NULL,
    metadata_json TEXT NOT NULL DEFAULT '{}',
    created_at TEXT NOT NULL
);
CREATE INDEX messages_thread ON messages (thread_id, seq);

CREATE VIRTUAL TABLE messages_fts USING fts5 (
    content, content = 'messages', content_rowid = 'seq', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TRIGGER messages_added AFTER INSERT ON messages BEGIN
    INSERT INTO messages_fts (rowid, content) VALUES (new.seq, new.content);
END;
CREATE TRIGGER messages_removed AFTER DELETE ON messages BEGIN
    INSERT INTO messages_fts (messages_fts, rowid, content) VALUES ('delete', old.seq, old.content);
END;
CREATE TRIGGER messages_changed AFTER UPDATE OF content ON messages BEGIN
    INSERT INTO messages_fts (messages_fts, rowid, content) VALUES ('delete', old.seq, old.content);
    INSERT INTO messages_fts (rowid, content) VALUES (new.seq, new.content);
END;

CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY,
    thread_id TEXT NOT NULL REFERENCES threads (thread_id),
    user_id TEXT NOT NULL REFERENCES users (user_id),
    goal TEXT NOT NULL,
    state TEXT NOT NULL,
    checkpoint_blob BLOB CHECK (checkpoint_blob IS NULL OR length(checkpoint_blob) <= 524288),
    checkpoint_label TEXT NOT NULL DEFAULT 'internal',
    next_wakeup_at TEXT,
    budget_json TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE INDEX jobs_state ON jobs (state, next_wakeup_at);

CREATE TABLE job_events (
    event_id TEXT PRIMARY KEY,
    job_id TEXT NOT NULL REFERENCES jobs (job_id),
    type TEXT NOT NULL,
    payload_json TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX job_events_job ON job_events (job_id, created_at);

CREATE TABLE schedules (
    schedule_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (user_id),
    trigger_type TEXT NOT NULL CHECK (trigger_type IN ('cron', 'interval', 'at')),
    trigger_config_json TEXT NOT NULL,
    payload_json TEXT NOT NULL,
    timezone TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE wakeup_events (
    event_id TEXT PRIMARY KEY,
    schedule_id TEXT NOT NULL REFERENCES schedules (schedule_id),
    scheduled_for TEXT NOT NULL,
    lease_until TEXT,
    status TEXT NOT NULL CHECK (status IN ('PENDING', 'LEASED', 'COMPLETED')),
    dedupe_key TEXT NOT NULL UNIQUE
);

CREATE TABLE proposed_actions (
    action_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (user_id),
    thread_id TEXT NOT NULL DEFAULT '',
    turn_id TEXT NOT NULL DEFAULT '',
    source TEXT NOT NULL,
    source_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    identity TEXT,
    args_json TEXT NOT NULL,
    args_hash TEXT NOT NULL,
    call_id TEXT NOT NULL DEFAULT '',
    risk_class TEXT NOT NULL,
    lane TEXT NOT NULL,
    justification TEXT,
    idempotency_key TEXT NOT NULL,
    digest TEXT NOT NULL,
    taint_json TEXT NOT NULL,
    decision_json TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN')),
    rejection_reason TEXT,
    attempt INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    begun_at TEXT,
    result_json TEXT,
    expires_at TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (user_id, tool, idempotency_key)
);
CREATE INDEX actions_status ON proposed_actions (status, created_at);
CREATE INDEX actions_turn ON proposed_actions (turn_id);

CREATE TABLE idempotency (
    owner_id TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    key TEXT NOT NULL,
    args_hash TEXT NOT NULL,
    result_hash TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (owner_id, tool_name, key)
) WITHOUT ROWID;

CREATE TABLE artifacts (
    artifact_id TEXT PRIMARY KEY,
    job_id TEXT REFERENCES jobs (job_id),
    thread_id TEXT,
    type TEXT NOT NULL,
    blob BLOB NOT NULL CHECK (length(blob) <= 2097152),
    label TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE notes (
    note_id TEXT PRIMARY KEY,
    thread_id TEXT,
    title TEXT NOT NULL,
    content TEXT NOT NULL CHECK (length(CAST(content AS BLOB)) <= 65536),
    label TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE TABLE audit_log (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    entry_id TEXT NOT NULL UNIQUE,
    event_type TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    payload_json TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX audit_entity ON audit_log (entity_id, seq);

CREATE TABLE receipts (
    seq INTEGER PRIMARY KEY,
    receipt_id TEXT NOT NULL UNIQUE,
    action_id TEXT NOT NULL,
    receipt_hash TEXT NOT NULL,
    line TEXT NOT NULL
);
CREATE INDEX receipts_action ON receipts (action_id);

CREATE TABLE ledger_heads (
    size INTEGER PRIMARY KEY,
    line TEXT NOT NULL
);
