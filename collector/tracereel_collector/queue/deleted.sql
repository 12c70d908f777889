-- Deletion marks: records of deleted data that arrive late are rejected until a mark expires.
CREATE TABLE IF NOT EXISTS deleted (
    tenant TEXT NOT NULL,
    what TEXT NOT NULL,
    id TEXT NOT NULL,
    until_unix_nano INTEGER NOT NULL,
    PRIMARY KEY (tenant, what, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS deleted_by_age ON deleted (until_unix_nano);
DROP TABLE IF EXISTS overwriting;
