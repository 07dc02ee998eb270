-- What calls to its model used, for each session and month. The calls themselves are rows of `usage`.
ALTER TABLE coding_sessions ADD COLUMN provider_invocations INTEGER NOT NULL DEFAULT 0;
ALTER TABLE coding_sessions ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE coding_sessions ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE coding_sessions ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE coding_sessions ADD COLUMN cost_millionths INTEGER NOT NULL DEFAULT 0;
ALTER TABLE coding_sessions ADD COLUMN unpriced_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session_usage ADD COLUMN provider_invocations INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session_usage ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session_usage ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session_usage ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session_usage ADD COLUMN cost_millionths INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session_usage ADD COLUMN unpriced_tokens INTEGER NOT NULL DEFAULT 0;
