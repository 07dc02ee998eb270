-- Each action that changed a file of the workspace, until a commit names it, in order: SHA-256 of what the file held
-- before and after it, empty where there was none. NULL is not known.
CREATE TABLE changed_files_new (
    seq INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    action_id TEXT NOT NULL,
    before TEXT,
    after TEXT
);
INSERT INTO changed_files_new (path, action_id) SELECT path, action_id FROM changed_files;
DROP TABLE changed_files;
ALTER TABLE changed_files_new RENAME TO changed_files;
