-- A turn waits for the outcomes of its calls, in nobody's hands, and goes on when the last of them is there.
CREATE TABLE turns_new (
    turn_id TEXT PRIMARY KEY,
    thread_id TEXT NOT NULL REFERENCES threads (thread_id) ON DELETE CASCADE,
    message_id TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('QUEUED', 'RUNNING', 'WAITING', 'ANSWERED', 'FAILED', 'STOPPED', 'INTERRUPTED')),
    ending TEXT NOT NULL DEFAULT '',
    code TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    worker TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    ended_at TEXT
);
INSERT INTO turns_new (rowid, turn_id, thread_id, message_id, state, ending, code, reason, worker, created_at, started_at, ended_at)
    SELECT rowid, turn_id, thread_id, message_id, state, ending, code, reason, worker, created_at, started_at, ended_at FROM turns;
DROP TABLE turns;
ALTER TABLE turns_new RENAME TO turns;
CREATE INDEX turns_open ON turns (created_at) WHERE state IN ('QUEUED', 'RUNNING');
CREATE INDEX turns_waiting ON turns (thread_id) WHERE state = 'WAITING';
CREATE INDEX turns_thread ON turns (thread_id, created_at);
