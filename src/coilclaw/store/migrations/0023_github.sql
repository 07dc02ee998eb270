-- Pull requests of the bot's repository that stand on GitHub too.
CREATE TABLE github_pulls (
    number INTEGER PRIMARY KEY REFERENCES pull_requests (number),
    remote INTEGER NOT NULL,       -- its number there
    head TEXT NOT NULL,            -- the commit that its branch was brought to
    gate TEXT NOT NULL,            -- the check that was shown last; empty: none
    etag TEXT NOT NULL,            -- of what was read last
    review TEXT NOT NULL,          -- the owner's review that was heeded last
    updated_at TEXT NOT NULL
);
