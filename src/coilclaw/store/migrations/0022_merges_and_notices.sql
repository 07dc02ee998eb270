-- The branch that a coding session's pull request is merged into; empty for the bot's own, which is main.
ALTER TABLE pull_requests ADD COLUMN target TEXT NOT NULL DEFAULT '';

-- Alerts and sessions that need the owner are told too. Dropping a table drops what refers to it, so that is kept aside.
CREATE TABLE notifications_new (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    notification_id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL CHECK (type IN
        ('approval_needed', 'approval_expiring', 'job_failed', 'job_completed', 'proactive_reach_out',
         'alert_raised', 'session_waiting')),
    reason TEXT CHECK (reason IS NULL OR reason IN
        ('operator_attention_needed', 'clarification_needed', 'important_update', 'follow_up_available')),
    entity_id TEXT NOT NULL,
    thread_id TEXT,
    job_id TEXT,
    seen_at TEXT,
    created_at TEXT NOT NULL
);
INSERT INTO notifications_new (seq, notification_id, type, reason, entity_id, thread_id, job_id, seen_at, created_at)
    SELECT seq, notification_id, type, reason, entity_id, thread_id, job_id, seen_at, created_at FROM notifications;
DELETE FROM sqlite_sequence WHERE name = 'notifications_new';
INSERT INTO sqlite_sequence (name, seq) SELECT 'notifications_new', seq FROM sqlite_sequence WHERE name = 'notifications';
CREATE TABLE deliveries_aside AS SELECT * FROM notification_deliveries;
DELETE FROM notification_deliveries;
DROP TABLE notifications;
ALTER TABLE notifications_new RENAME TO notifications;
CREATE INDEX notifications_entity ON notifications (entity_id, type, seq);
INSERT INTO notification_deliveries SELECT * FROM deliveries_aside;
DROP TABLE deliveries_aside;
