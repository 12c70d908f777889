-- Digests only: who owned which session is nobody's business here, only whether it is the same one.
CREATE TABLE IF NOT EXISTS sessions (
    session BLOB PRIMARY KEY,
    owner BLOB NOT NULL,
    last_unix_nano INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sessions_by_age ON sessions (last_unix_nano);
