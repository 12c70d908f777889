CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS bodies (
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
CREATE INDEX IF NOT EXISTS bodies_by_kind ON bodies (kind, id, records, bytes);

CREATE TABLE IF NOT EXISTS batches (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    first_body INTEGER NOT NULL,
    last_body INTEGER NOT NULL,
    records INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    done_unix_nano INTEGER
);
CREATE INDEX IF NOT EXISTS open_batches ON batches (kind, id) WHERE done_unix_nano IS NULL;

CREATE TABLE IF NOT EXISTS emitters (
    tenant TEXT NOT NULL,
    emitter_id TEXT NOT NULL,
    seen TEXT NOT NULL,
    last_unix_nano INTEGER NOT NULL,
    PRIMARY KEY (tenant, emitter_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS emitters_by_age ON emitters (last_unix_nano);

CREATE TABLE IF NOT EXISTS digests (digest BLOB PRIMARY KEY, received_unix_nano INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS digests_by_age ON digests (received_unix_nano);

CREATE TABLE IF NOT EXISTS counters (
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (name, kind)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS quarantine (
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

CREATE TABLE IF NOT EXISTS gauges (
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (name, kind)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS tenant_bytes (
    tenant TEXT PRIMARY KEY,
    pending INTEGER NOT NULL,
    quarantined INTEGER NOT NULL
) WITHOUT ROWID;
