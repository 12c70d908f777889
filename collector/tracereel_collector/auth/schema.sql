CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    digest BLOB NOT NULL,
    created_unix INTEGER NOT NULL,
    expires_unix INTEGER,
    revoked_unix INTEGER
) WITHOUT ROWID;
