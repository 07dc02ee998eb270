-- The owner's own folders that the agent may work in. Removed ones stay as rows: conversations and labels name them.
CREATE TABLE projects (
    project_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    path TEXT NOT NULL,            -- without links
    inode INTEGER NOT NULL,        -- of the folder that was added: another one at the same path is another project
    vouched INTEGER NOT NULL,      -- whether its files count as the owner's
    added_at TEXT NOT NULL,
    removed_at TEXT
);
CREATE UNIQUE INDEX projects_name ON projects (name) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX projects_path ON projects (path) WHERE removed_at IS NULL;

-- The project a conversation works in; without a row it is the workspace. Written once and never changed, and kept when
-- the conversation is deleted: what was planned in it must not come to work elsewhere.
CREATE TABLE thread_projects (
    thread_id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL
) WITHOUT ROWID;

-- Labels of files hold for one root: a project, or the workspace (empty).
CREATE TABLE file_labels_new (
    root TEXT NOT NULL,
    path TEXT NOT NULL,
    label TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (root, path, label, content_hash)
) WITHOUT ROWID;
INSERT INTO file_labels_new (root, path, label, content_hash, size, mtime_ns, created_at)
    SELECT '', path, label, content_hash, size, mtime_ns, created_at FROM file_labels;
DROP TABLE file_labels;
ALTER TABLE file_labels_new RENAME TO file_labels;
CREATE INDEX file_labels_size ON file_labels (root, size);
