CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE bodies (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    first_sequence_number INTEGER NOT NULL,
    records INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    received_unix_nano INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX bodies_by_kind ON bodies (kind, id, records, bytes);

CREATE TABLE batches (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    first_body INTEGER NOT NULL,
    last_body INTEGER NOT NULL,
    records INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    done_unix_nano INTEGER
);
CREATE INDEX open_batches ON batches (kind, id) WHERE done_unix_nano IS NULL;

CREATE TABLE emitters (
    tenant TEXT NOT NULL,
    emitter_id TEXT NOT NULL,
    seen TEXT NOT NULL,
    last_unix_nano INTEGER NOT NULL,
    PRIMARY KEY (tenant, emitter_id)
) WITHOUT ROWID;
CREATE INDEX emitters_by_age ON emitters (last_unix_nano);

CREATE TABLE digests (digest BLOB PRIMARY KEY, received_unix_nano INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX digests_by_age ON digests (received_unix_nano);

CREATE TABLE counters (
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (name, kind)
) WITHOUT ROWID;

CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    sequence_number INTEGER NOT NULL,
    records INTEGER NOT NULL,
    reason TEXT NOT NULL,
    quarantined_unix_nano INTEGER NOT NULL,
    data BLOB NOT NULL,
    received_unix_nano INTEGER NOT NULL DEFAULT 0
);

-- Bytes of undelivered bodies and of the quarantine; recalculated when the owner process starts.
CREATE TABLE held_bytes (
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    pending INTEGER NOT NULL,
    quarantined INTEGER NOT NULL,
    PRIMARY KEY (kind, tenant)
) WITHOUT ROWID;

-- Digests only: ownership needs a comparison, not the names of users and sessions.
CREATE TABLE sessions (
    session BLOB PRIMARY KEY,
    owner BLOB NOT NULL,
    last_unix_nano INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_by_age ON sessions (last_unix_nano);

-- Deletion marks: records of deleted data that arrive late are rejected until a mark expires.
CREATE TABLE deleted (
    tenant TEXT NOT NULL,
    what TEXT NOT NULL,
    id TEXT NOT NULL,
    until_unix_nano INTEGER NOT NULL,
    PRIMARY KEY (tenant, what, id)
) WITHOUT ROWID;
CREATE INDEX deleted_by_age ON deleted (until_unix_nano);
