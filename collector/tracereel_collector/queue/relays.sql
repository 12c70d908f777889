-- Bodies that belong to another member of the group: acknowledged here, sent to their owner in order of id.
CREATE TABLE IF NOT EXISTS relays (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    records INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    received_unix_nano INTEGER NOT NULL,
    head TEXT NOT NULL,
    is_awaited INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS relays_by_owner ON relays (owner, id, tenant, bytes, received_unix_nano);

-- Receipts of owners for relays that a request waits for; deleted after some minutes.
CREATE TABLE IF NOT EXISTS relay_receipts (
    id INTEGER PRIMARY KEY,
    receipt TEXT NOT NULL,
    given_unix_nano INTEGER NOT NULL
);

-- Highest id taken from the outbox of each other queue.
CREATE TABLE IF NOT EXISTS relay_marks (
    source TEXT PRIMARY KEY,
    last_id INTEGER NOT NULL,
    last_unix_nano INTEGER NOT NULL
) WITHOUT ROWID;
