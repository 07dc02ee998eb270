-- Pull requests: of the bot's own repository (empty) or, later, of others. A job has one at most, whatever happens.
CREATE TABLE pull_requests (
    number INTEGER PRIMARY KEY,
    repository TEXT NOT NULL,
    job_id TEXT REFERENCES jobs (job_id),
    session_id TEXT,
    draft INTEGER NOT NULL,
    branch TEXT NOT NULL,
    base_sha TEXT NOT NULL,
    head_sha TEXT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    risk TEXT NOT NULL CHECK (risk IN ('R0', 'R1', 'R2', 'R3')),
    labels_json TEXT NOT NULL,
    taint_json TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('OPEN', 'MERGED', 'CLOSED')),
    merged_sha TEXT NOT NULL,
    action_id TEXT,                -- the merge question
    checks_json TEXT NOT NULL,
    checked_sha TEXT NOT NULL,     -- main, as the checks saw it
    rounds INTEGER NOT NULL,
    wanted TEXT NOT NULL,
    dormant INTEGER NOT NULL,      -- open, but no question is put
    reason TEXT NOT NULL,
    opened_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    deployed_at TEXT
);
CREATE UNIQUE INDEX pull_requests_job ON pull_requests (job_id) WHERE job_id IS NOT NULL;
CREATE UNIQUE INDEX pull_requests_branch ON pull_requests (repository, branch) WHERE state = 'OPEN';
CREATE INDEX pull_requests_state ON pull_requests (state, number);

-- The folder a job works in, made from a commit on main. A job without a row works in the workspace or a project.
CREATE TABLE job_trees (
    job_id TEXT PRIMARY KEY REFERENCES jobs (job_id),
    folder TEXT NOT NULL,
    inode INTEGER NOT NULL,
    base_sha TEXT NOT NULL,
    made_at TEXT NOT NULL,
    removed_at TEXT
);

-- The action that last changed a file of the workspace, until a commit names it.
CREATE TABLE changed_files (
    path TEXT PRIMARY KEY,
    action_id TEXT NOT NULL
) WITHOUT ROWID;
