-- The server: who may come in, what proves the owner, turns that outlive their request, and what the owner is told.

-- A device is unconfirmed when it was paired while passkeys existed and no assertion has vouched for it yet.
ALTER TABLE devices ADD COLUMN confirmed_at TEXT;
ALTER TABLE devices ADD COLUMN last_seen_at TEXT;
CREATE INDEX tokens_device ON auth_tokens (device_id);

-- One code at a time is good; every wrong guess, whoever makes it, counts against it.
CREATE TABLE pairing_codes (
    code_id TEXT PRIMARY KEY,
    code_hash TEXT NOT NULL,
    issued_by TEXT NOT NULL,
    -- Whether it adds a device beside those there are, replaces them, or may only be the first.
    mode TEXT NOT NULL CHECK (mode IN ('first', 'add', 'replace')),
    -- Set when an assertion stood behind it: the device is confirmed from the start.
    vouched INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    expires_at TEXT NOT NULL,
    closed_at TEXT,
    closed_why TEXT CHECK (closed_why IN ('used', 'burned', 'superseded')),
    created_at TEXT NOT NULL
);

CREATE TABLE passkeys (
    credential_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (user_id),
    device_id TEXT,
    name TEXT NOT NULL,
    public_key BLOB NOT NULL,
    sign_count INTEGER NOT NULL,
    rp_id TEXT NOT NULL,
    aaguid TEXT NOT NULL DEFAULT '',
    transports_json TEXT NOT NULL DEFAULT '[]',
    backed_up INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    removed_at TEXT
);

-- A challenge is asked once, for one thing, and answered at most once.
CREATE TABLE challenges (
    challenge_id TEXT PRIMARY KEY,
    purpose TEXT NOT NULL,
    subject TEXT NOT NULL,
    digest TEXT NOT NULL,
    -- Until when what is asked for may happen; part of what is signed.
    valid_until TEXT NOT NULL,
    nonce TEXT NOT NULL,
    device_id TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    used_at TEXT,
    created_at TEXT NOT NULL
);
CREATE INDEX challenges_when ON challenges (created_at);

-- What the owner's passkey signed, kept whole so that it can be verified again.
CREATE TABLE assertions (
    assertion_id TEXT PRIMARY KEY,
    purpose TEXT NOT NULL,
    subject TEXT NOT NULL,
    digest TEXT NOT NULL,
    valid_until TEXT NOT NULL,
    nonce TEXT NOT NULL,
    credential_id TEXT NOT NULL,
    public_key BLOB NOT NULL,
    rp_id TEXT NOT NULL,
    origin TEXT NOT NULL,
    authenticator_data BLOB NOT NULL,
    client_data BLOB NOT NULL,
    signature BLOB NOT NULL,
    device_id TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX assertions_subject ON assertions (subject);

-- A turn that was accepted is done, however its client fares.
CREATE TABLE turns (
    turn_id TEXT PRIMARY KEY,
    thread_id TEXT NOT NULL REFERENCES threads (thread_id) ON DELETE CASCADE,
    message_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('QUEUED', 'RUNNING', 'ANSWERED', 'FAILED', 'STOPPED', 'INTERRUPTED')),
    ending TEXT NOT NULL DEFAULT '',
    code TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    worker TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    ended_at TEXT
);
CREATE INDEX turns_open ON turns (created_at) WHERE state IN ('QUEUED', 'RUNNING');
CREATE INDEX turns_thread ON turns (thread_id, created_at);

-- Answers to requests that carried an Idempotency-Key, by device.
CREATE TABLE requests (
    device_id TEXT NOT NULL,
    key TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    status INTEGER,
    headers_json TEXT NOT NULL DEFAULT '{}',
    body BLOB,
    worker TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (device_id, key)
) WITHOUT ROWID;
CREATE INDEX requests_when ON requests (created_at);

CREATE TABLE notifications (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    notification_id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL CHECK (type IN
        ('approval_needed', 'approval_expiring', 'job_failed', 'job_completed', 'proactive_reach_out')),
    reason TEXT CHECK (reason IS NULL OR reason IN
        ('operator_attention_needed', 'clarification_needed', 'important_update', 'follow_up_available')),
    entity_id TEXT NOT NULL,
    thread_id TEXT,
    job_id TEXT,
    seen_at TEXT,
    created_at TEXT NOT NULL
);
CREATE INDEX notifications_entity ON notifications (entity_id, type, seq);

-- Secrets the owner keeps here instead of in the environment; sealed, with the name as associated data.
CREATE TABLE stored_secrets (
    name TEXT PRIMARY KEY,
    sealed BLOB NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) WITHOUT ROWID;

-- Whatever process says something in a conversation, whoever follows the events hears of it.
CREATE TRIGGER messages_told AFTER INSERT ON messages BEGIN
    INSERT INTO audit_log (entry_id, event_type, entity_id, payload_json, created_at) VALUES (
        'evt_' || new.message_id, 'message_added', new.thread_id,
        json_object('message_id', new.message_id, 'role', new.role, 'turn_id', new.turn_id, 'action_id', new.action_id),
        new.created_at
    );
END;
