-- Guests: outside programs whose tools the owner let in. The pin is what was approved; what a guest offered last stands
-- beside it, so that a difference can be shown and approved.
CREATE TABLE guests (
    name TEXT PRIMARY KEY,
    pin_json BLOB,                 -- NULL before the first yes
    pin_hash TEXT NOT NULL,
    seen_json BLOB,                -- the last offer
    seen_hash TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    fault TEXT NOT NULL,           -- why it last failed to start
    approved_at TEXT,
    changed INTEGER NOT NULL       -- counts every change, so that other processes notice one
);
