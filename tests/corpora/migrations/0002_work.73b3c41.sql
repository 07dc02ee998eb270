-- Work that waits and goes on: who approved an action and when it is tried again, jobs with their plan and their place,
-- what was spent, and which workspace files hold untrusted content.

ALTER TABLE proposed_actions ADD COLUMN job_id TEXT;
ALTER TABLE proposed_actions ADD COLUMN approved_at TEXT;
ALTER TABLE proposed_actions ADD COLUMN approved_by TEXT;
ALTER TABLE proposed_actions ADD COLUMN next_attempt_at TEXT;
-- 1 when an earlier attempt may have had its effect: it is looked up before anything is sent again.
ALTER TABLE proposed_actions ADD COLUMN uncertain INTEGER NOT NULL DEFAULT 0;
-- What the files it would replace held when the owner was shown them; the yes holds only for that.
ALTER TABLE proposed_actions ADD COLUMN seen_hash TEXT;
CREATE INDEX actions_due ON proposed_actions (status, next_attempt_at);
CREATE INDEX actions_job ON proposed_actions (job_id);

ALTER TABLE jobs ADD COLUMN spec_json TEXT NOT NULL DEFAULT '{}';
ALTER TABLE jobs ADD COLUMN plan_json TEXT NOT NULL DEFAULT '{}';
ALTER TABLE jobs ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN paused_from TEXT;
ALTER TABLE jobs ADD COLUMN deadline_at TEXT;
ALTER TABLE jobs ADD COLUMN worker TEXT;
ALTER TABLE jobs ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
-- Grows with every change: whoever writes a job names the version it read.
ALTER TABLE jobs ADD COLUMN version INTEGER NOT NULL DEFAULT 0;

CREATE INDEX jobs_worker ON jobs (worker);

-- Workspace files a job changed, each once.
CREATE TABLE job_files (
    job_id TEXT NOT NULL REFERENCES jobs (job_id),
    path TEXT NOT NULL,
    PRIMARY KEY (job_id, path)
) WITHOUT ROWID;

CREATE TABLE usage (
    usage_id TEXT PRIMARY KEY,
    thread_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    job_id TEXT,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX usage_when ON usage (created_at);
CREATE INDEX usage_job ON usage (job_id);

CREATE TABLE file_labels (
    path TEXT NOT NULL,
    label TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (path, label, content_hash)
) WITHOUT ROWID;

ALTER TABLE artifacts ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE artifacts ADD COLUMN content_hash TEXT NOT NULL DEFAULT '';
CREATE INDEX artifacts_job ON artifacts (job_id);
CREATE INDEX artifacts_when ON artifacts (created_at);
CREATE UNIQUE INDEX notes_title ON notes (title);
CREATE INDEX messages_when ON messages (created_at);
CREATE INDEX audit_when ON audit_log (created_at);
CREATE INDEX idempotency_when ON idempotency (created_at);
