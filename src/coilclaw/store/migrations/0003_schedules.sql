-- Schedules: what the registry declares, when each comes due next, and every run that was.

ALTER TABLE schedules ADD COLUMN origin TEXT NOT NULL DEFAULT 'registry' CHECK (origin IN ('registry', 'followup'));
-- Hash of everything declared, and of the part that says when: only a change of that one moves next_run_utc.
ALTER TABLE schedules ADD COLUMN declared_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN timing_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN options_json TEXT NOT NULL DEFAULT '{}';
-- The next slot is the first one after counted_from; due_at is that slot, shifted by the stagger.
ALTER TABLE schedules ADD COLUMN counted_from TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN next_run_utc TEXT;
ALTER TABLE schedules ADD COLUMN due_at TEXT;
ALTER TABLE schedules ADD COLUMN tzdata_version TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN paused_reason TEXT;
ALTER TABLE schedules ADD COLUMN thread_id TEXT NOT NULL DEFAULT '';
-- Where a follow-up's words came from.
ALTER TABLE schedules ADD COLUMN labels_json TEXT NOT NULL DEFAULT '[]';
ALTER TABLE schedules ADD COLUMN updated_at TEXT NOT NULL DEFAULT '';
CREATE INDEX schedules_due ON schedules (due_at) WHERE enabled = 1 AND paused_reason IS NULL;
CREATE INDEX schedules_origin ON schedules (origin) WHERE origin <> 'registry';

-- Every slot that came due leaves a row: run, queued, or skipped with its reason; missed slots of one time share one.
CREATE TABLE schedule_runs (
    run_instance_id TEXT PRIMARY KEY,
    schedule_id TEXT NOT NULL,
    scheduled_at TEXT NOT NULL,
    cause TEXT NOT NULL CHECK (cause IN ('due', 'late', 'manual')),
    state TEXT NOT NULL CHECK (state IN ('QUEUED', 'STARTED', 'ENDED', 'SKIPPED')),
    job_id TEXT,
    outcome TEXT,
    lateness_seconds INTEGER NOT NULL,
    slots INTEGER NOT NULL DEFAULT 1,
    first_slot TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    cron_summary TEXT NOT NULL DEFAULT '',
    cron_notes TEXT,
    next_runs_json TEXT NOT NULL DEFAULT '{}',
    created_at TEXT NOT NULL
);
CREATE INDEX schedule_runs_of ON schedule_runs (schedule_id, created_at);
CREATE INDEX schedule_runs_open ON schedule_runs (schedule_id, scheduled_at) WHERE state IN ('QUEUED', 'STARTED');
CREATE INDEX wakeup_events_of ON wakeup_events (schedule_id);
