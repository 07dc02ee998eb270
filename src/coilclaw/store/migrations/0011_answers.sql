-- Standing answers: an owner's yes to a card that holds from now on, for some time, in one folder.
CREATE TABLE standing_answers (
  answer_id TEXT PRIMARY KEY,
  what TEXT NOT NULL,            -- command, program or folder
  scope TEXT NOT NULL,           -- what the owner was told it covers
  match TEXT NOT NULL,           -- what a call is compared with, canonical JSON
  digest TEXT NOT NULL,          -- the hash of match
  root TEXT NOT NULL,            -- the folder its calls work in
  thread_id TEXT,                -- null where it holds in every conversation
  action_id TEXT NOT NULL,       -- the action whose card was answered
  expires_at TEXT,
  created_at TEXT NOT NULL,
  created_by TEXT NOT NULL,
  proof TEXT NOT NULL,           -- what stood behind the owner's word, JSON
  revoked_at TEXT,
  revoked_by TEXT,
  uses INTEGER NOT NULL DEFAULT 0,
  last_used_at TEXT,
  mac BLOB
);
CREATE INDEX standing_answers_root ON standing_answers (root, revoked_at);
