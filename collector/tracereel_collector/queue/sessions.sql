-- Digests only: ownership needs a comparison, not the names of users and sessions.
CREATE TABLE IF NOT EXISTS sessions (
    session BLOB PRIMARY KEY,
    owner BLOB NOT NULL,
    last_unix_nano INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sessions_by_age ON sessions (last_unix_nano);
