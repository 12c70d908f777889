-- What was deleted and may still come: kept for a while, so that latecomers are not stored again.
CREATE TABLE IF NOT EXISTS deleted (
    tenant TEXT NOT NULL,
    what TEXT NOT NULL,
    id TEXT NOT NULL,
    until_unix_nano INTEGER NOT NULL,
    PRIMARY KEY (tenant, what, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS deleted_by_age ON deleted (until_unix_nano);
CREATE TABLE IF NOT EXISTS overwriting (data BLOB NOT NULL);
