-- The first schema. Rules of this file:
--   * ids are 16-byte BLOBs, times are whole microseconds since 1970, UTC;
--   * numbers of states, causes and the like are those of internal/job and never
--     change meaning;
--   * the status machine is guarded here too, whoever writes.

-- +goose Up

CREATE TABLE meta (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    store_id      BLOB    NOT NULL CHECK (length(store_id) = 16),
    created_at    INTEGER NOT NULL,
    -- Which file on which machine this database was last opened as.
    file_identity TEXT    NOT NULL,
    -- Rises with every open; the lock file beside the database knows it too.
    generation    INTEGER NOT NULL DEFAULT 0,
    quarantined   TEXT    NOT NULL DEFAULT '',
    -- Events up to and including this position may have been dropped.
    events_from   INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What the process believes about the time. See store.Timeline.
CREATE TABLE clock (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    -- The run of the machine; empty: unknown.
    boot_id  TEXT    NOT NULL,
    -- The believed time when the machine's boot clock showed boot.
    at       INTEGER NOT NULL,
    boot     INTEGER NOT NULL,
    -- A doubt under way: since when, on the boot clock, how far the clock was off, and
    -- the time that it is behind; 0: none.
    since    INTEGER NOT NULL,
    off      INTEGER NOT NULL,
    floor    INTEGER NOT NULL,
    -- Rises with each step.
    steps    INTEGER NOT NULL DEFAULT 0,
    -- 1 while a step is written, which may move fences back.
    stepping INTEGER NOT NULL DEFAULT 0 CHECK (stepping IN (0, 1))
) STRICT;

CREATE TABLE projects (
    id           TEXT    PRIMARY KEY NOT NULL CHECK (id <> ''),
    display_name TEXT    NOT NULL DEFAULT '',
    created_at   INTEGER NOT NULL
) STRICT;

INSERT INTO projects (id, display_name, created_at)
VALUES ('default', 'Default', CAST(strftime('%s', 'now') AS INTEGER) * 1000000);

CREATE TABLE connections (
    id                     BLOB    PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    project                TEXT    NOT NULL,
    connector              TEXT    NOT NULL,
    display_name           TEXT    NOT NULL,
    settings               BLOB    NOT NULL,
    class                  INTEGER NOT NULL CHECK (class BETWEEN 1 AND 4),
    key_window             INTEGER NOT NULL CHECK (key_window >= 0),
    account_identity       TEXT    NOT NULL,
    max_in_flight          INTEGER NOT NULL CHECK (max_in_flight >= 0),
    max_per_minute         INTEGER NOT NULL CHECK (max_per_minute >= 0),
    -- The token bucket: when its oldest free token was made. See claim.go.
    bucket_at              INTEGER NOT NULL DEFAULT 0,
    paused_at              INTEGER,
    paused_reason          TEXT    NOT NULL DEFAULT '',
    credential_version     INTEGER NOT NULL DEFAULT 0 CHECK (credential_version >= 0),
    credential_fingerprint TEXT    NOT NULL DEFAULT '',
    credential_expires_at  INTEGER,
    idem_key               TEXT    NOT NULL,
    fingerprint            BLOB    NOT NULL,
    version                INTEGER NOT NULL CHECK (version >= 1),
    created_at             INTEGER NOT NULL,
    updated_at             INTEGER NOT NULL,
    deleted_at             INTEGER,
    -- Actors, as in events.
    created_by             TEXT    NOT NULL DEFAULT '',
    updated_by             TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE UNIQUE INDEX connections_key ON connections (project, idem_key) WHERE idem_key <> '';
CREATE INDEX connections_list ON connections (project, created_at, id);

CREATE TABLE connection_credentials (
    connection_id BLOB    NOT NULL REFERENCES connections (id),
    version       INTEGER NOT NULL CHECK (version >= 1),
    key_id        TEXT    NOT NULL,
    data          BLOB    NOT NULL,
    fingerprint   TEXT    NOT NULL,
    expires_at    INTEGER,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (connection_id, version)
) STRICT, WITHOUT ROWID;

-- Which keys are in use: asked at every start, and by a rotation.
CREATE INDEX connection_credentials_key ON connection_credentials (key_id);

-- The frozen request.
CREATE TABLE jobs (
    id              BLOB    PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    project         TEXT    NOT NULL,
    idem_key        TEXT    NOT NULL CHECK (idem_key <> ''),
    connection_id   BLOB    NOT NULL REFERENCES connections (id),
    hold_key        TEXT    NOT NULL,
    payload_kind    TEXT    NOT NULL,
    start_window    INTEGER NOT NULL CHECK (start_window >= 0),
    max_attempts    INTEGER NOT NULL,
    min_backoff     INTEGER NOT NULL,
    max_backoff     INTEGER NOT NULL,
    attempt_timeout INTEGER NOT NULL,
    policy          INTEGER NOT NULL CHECK (policy BETWEEN 1 AND 3),
    labels          TEXT    NOT NULL CHECK (json_valid(labels)),
    time_zone       TEXT    NOT NULL,
    reply_to        BLOB    CHECK (length(reply_to) = 16),
    schedule_id     BLOB    CHECK (length(schedule_id) = 16),
    fingerprint     BLOB    NOT NULL,
    created_at      INTEGER NOT NULL,
    payload         BLOB    NOT NULL
) STRICT;

CREATE INDEX jobs_created ON jobs (project, created_at, id);
CREATE INDEX jobs_schedule ON jobs (schedule_id, created_at) WHERE schedule_id IS NOT NULL;

-- One key, one job. A row outlives its job; kept_until is set when the job is
-- removed and is NULL while it lives.
CREATE TABLE job_keys (
    project    TEXT NOT NULL,
    idem_key   TEXT NOT NULL,
    job_id     BLOB NOT NULL CHECK (length(job_id) = 16),
    kept_until INTEGER,
    PRIMARY KEY (project, idem_key)
) STRICT, WITHOUT ROWID;

-- The narrow, changing part of a job.
CREATE TABLE job_state (
    job_id          BLOB    PRIMARY KEY NOT NULL REFERENCES jobs (id),
    project         TEXT    NOT NULL,
    connection_id   BLOB    NOT NULL,
    hold_key        TEXT    NOT NULL,
    state           INTEGER NOT NULL CHECK (state BETWEEN 1 AND 11),
    version         INTEGER NOT NULL CHECK (version >= 1),
    attempt         INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    round           INTEGER NOT NULL DEFAULT 1 CHECK (round >= 1),
    failures        INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    claims          INTEGER NOT NULL DEFAULT 0 CHECK (claims >= 0),
    looks           INTEGER NOT NULL DEFAULT 0 CHECK (looks >= 0),
    negatives       INTEGER NOT NULL DEFAULT 0 CHECK (negatives >= 0),
    schedule_time   INTEGER NOT NULL,
    start_deadline  INTEGER NOT NULL,
    -- The start, the lease's end, the fence, or the next look.
    next_at         INTEGER,
    claim_token     BLOB    CHECK (length(claim_token) = 16),
    claimed_at      INTEGER,
    worker          TEXT    NOT NULL DEFAULT '',
    class           INTEGER NOT NULL CHECK (class BETWEEN 1 AND 4),
    cancel_asked_at INTEGER,
    blocked         TEXT    NOT NULL DEFAULT '',
    error_kind      INTEGER NOT NULL DEFAULT 0 CHECK (error_kind BETWEEN 0 AND 10),
    error_message   TEXT    NOT NULL DEFAULT '',
    error_status    INTEGER NOT NULL DEFAULT 0,
    error_at        INTEGER,
    -- The newest row of resolutions.
    resolution_id   INTEGER,
    updated_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    -- States that wait for nobody have nothing due; all others do.
    CHECK ((next_at IS NULL) = (state IN (7, 8, 9, 10, 11))),
    CHECK (claim_token IS NULL OR state IN (2, 4, 5)),
    CHECK (state <> 2 OR claim_token IS NOT NULL),
    CHECK ((ended_at IS NULL) = (state NOT IN (8, 9, 10, 11)))
) STRICT, WITHOUT ROWID;

-- What a claim reads: SCHEDULED and RETRYING.
CREATE INDEX job_state_runnable ON job_state (connection_id, hold_key, next_at) WHERE state IN (1, 6);
-- Leases and fences: CLAIMED and SENDING.
CREATE INDEX job_state_fence ON job_state (next_at) WHERE state IN (2, 3);
-- Looks and polls: ACCEPTED and AMBIGUOUS.
CREATE INDEX job_state_look ON job_state (next_at) WHERE state IN (4, 5);
CREATE INDEX job_state_deadline ON job_state (start_deadline) WHERE state IN (1, 2, 6);
CREATE INDEX job_state_in_flight ON job_state (connection_id) WHERE state IN (2, 3);
CREATE INDEX job_state_list ON job_state (project, schedule_time, job_id);

-- A copy of job.Transitions, which a test compares with it.
CREATE TABLE transitions (
    from_state INTEGER NOT NULL,
    to_state   INTEGER NOT NULL,
    PRIMARY KEY (from_state, to_state)
) STRICT, WITHOUT ROWID;

INSERT INTO transitions (from_state, to_state) VALUES
    (0, 1),
    (1, 2), (1, 10), (1, 11),
    (2, 1), (2, 6), (2, 3), (2, 9), (2, 10), (2, 11), (2, 4), (2, 8),
    (3, 8), (3, 4), (3, 6), (3, 9), (3, 10), (3, 5),
    (6, 2), (6, 10), (6, 11), (6, 4), (6, 8),
    (5, 3), (5, 8), (5, 4), (5, 6), (5, 11), (5, 9), (5, 10), (5, 7),
    (7, 8), (7, 4), (7, 6), (7, 9), (7, 10),
    (4, 8), (4, 9), (4, 6), (4, 10), (4, 7),
    (9, 6), (9, 8), (11, 6), (11, 8), (10, 8);

-- +goose StatementBegin
CREATE TRIGGER job_state_insert BEFORE INSERT ON job_state
WHEN NEW.version <> 1 OR NEW.attempt <> 0
    OR NOT EXISTS (SELECT 1 FROM transitions WHERE from_state = 0 AND to_state = NEW.state)
BEGIN
    SELECT RAISE(ABORT, 'a job starts as SCHEDULED, version 1, attempt 0');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER job_state_update BEFORE UPDATE ON job_state
BEGIN
    SELECT RAISE(ABORT, 'illegal transition')
    WHERE OLD.state <> NEW.state
        AND NOT EXISTS (SELECT 1 FROM transitions WHERE from_state = OLD.state AND to_state = NEW.state);
    SELECT RAISE(ABORT, 'a change of state raises the version by one')
    WHERE NEW.version <> OLD.version + 1 AND (OLD.state <> NEW.state OR NEW.version <> OLD.version);
    SELECT RAISE(ABORT, 'an attempt rises by one, and only at an arm')
    WHERE NEW.attempt <> OLD.attempt AND (NEW.attempt <> OLD.attempt + 1 OR NEW.state <> 3 OR OLD.state = 3);
    SELECT RAISE(ABORT, 'a job that is being sent was armed')
    WHERE NEW.state = 3 AND OLD.state <> 3 AND NEW.attempt <> OLD.attempt + 1;
    SELECT RAISE(ABORT, 'a fence never moves')
    WHERE NEW.state = 3 AND OLD.state = 3 AND NEW.next_at <> OLD.next_at;
    SELECT RAISE(ABORT, 'a job keeps its id and its connection')
    WHERE NEW.job_id <> OLD.job_id OR NEW.connection_id <> OLD.connection_id;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER job_state_delete BEFORE DELETE ON job_state
WHEN OLD.state NOT IN (8, 9, 10, 11)
BEGIN
    SELECT RAISE(ABORT, 'a live job is never deleted');
END;
-- +goose StatementEnd

-- One row for each connection and hold key that ever had a job. Claim walks the
-- rows whose runnable_at has come, so that a held row costs it nothing,
-- whatever waits behind it.
CREATE TABLE connection_ready (
    connection_id      BLOB    NOT NULL REFERENCES connections (id),
    hold_key           TEXT    NOT NULL,
    -- No runnable job is due earlier; NULL: there is none.
    next_at            INTEGER,
    paused             INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    auth_hold_at       INTEGER,
    auth_hold_reason   TEXT    NOT NULL DEFAULT '',
    rate_limited_until INTEGER NOT NULL DEFAULT 0,
    rate_limit_reason  TEXT    NOT NULL DEFAULT '',
    -- The connection has MaxInFlight jobs under way; ends when one of them ends.
    saturated          INTEGER NOT NULL DEFAULT 0 CHECK (saturated IN (0, 1)),
    -- The connection's token bucket is empty until then.
    paced_until        INTEGER NOT NULL DEFAULT 0,
    -- When, and as the how-many-th in all, the row was last served: rows that
    -- wait longer go first.
    served_at          INTEGER NOT NULL DEFAULT 0,
    served_turn        INTEGER NOT NULL DEFAULT 0,
    runnable_at        INTEGER GENERATED ALWAYS AS (
        CASE WHEN paused = 1 OR saturated = 1 OR auth_hold_at IS NOT NULL THEN NULL
        ELSE max(next_at, rate_limited_until, paced_until, served_at) END
    ) STORED,
    PRIMARY KEY (connection_id, hold_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX connection_ready_runnable ON connection_ready (runnable_at, served_turn) WHERE runnable_at IS NOT NULL;

CREATE TABLE attempts (
    job_id             BLOB    NOT NULL REFERENCES jobs (id),
    number             INTEGER NOT NULL CHECK (number >= 1),
    round              INTEGER NOT NULL CHECK (round >= 1),
    arm_token          BLOB    NOT NULL CHECK (length(arm_token) = 16),
    worker             TEXT    NOT NULL,
    claimed_at         INTEGER,
    armed_at           INTEGER NOT NULL,
    send_deadline      INTEGER NOT NULL,
    answer_deadline    INTEGER NOT NULL,
    -- After this the attempt can no longer act.
    fence_at           INTEGER NOT NULL,
    effect_key         TEXT    NOT NULL,
    request_digest     BLOB    NOT NULL,
    credential_version INTEGER NOT NULL,
    account_identity   TEXT    NOT NULL,
    watermark          TEXT    NOT NULL,
    handle             TEXT    NOT NULL DEFAULT '',
    -- 0: no outcome yet.
    result             INTEGER NOT NULL DEFAULT 0 CHECK (result BETWEEN 0 AND 7),
    kind               INTEGER NOT NULL DEFAULT 0 CHECK (kind BETWEEN 0 AND 10),
    message            TEXT    NOT NULL DEFAULT '',
    http_status        INTEGER NOT NULL DEFAULT 0,
    bytes_written      INTEGER NOT NULL DEFAULT 0,
    ended_at           INTEGER,
    frozen             BLOB    NOT NULL,
    PRIMARY KEY (job_id, number)
) STRICT;

CREATE UNIQUE INDEX attempts_arm_token ON attempts (arm_token);
-- At most one live intent per job.
CREATE UNIQUE INDEX attempts_live ON attempts (job_id) WHERE result = 0;

-- +goose StatementBegin
CREATE TRIGGER attempts_insert BEFORE INSERT ON attempts
WHEN EXISTS (SELECT 1 FROM attempts WHERE job_id = NEW.job_id AND result IN (0, 4) AND effect_key <> NEW.effect_key)
BEGIN
    SELECT RAISE(ABORT, 'an earlier attempt is open and has another effect key');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER attempts_update BEFORE UPDATE ON attempts
WHEN OLD.result <> NEW.result
BEGIN
    SELECT RAISE(ABORT, 'a confirmed attempt stays confirmed') WHERE OLD.result = 1;
    SELECT RAISE(ABORT, 'what is known of an attempt is not forgotten')
    WHERE NEW.result = 0 OR (NEW.result = 4 AND OLD.result IN (2, 3, 7) AND NEW.handle = '');
END;
-- +goose StatementEnd

-- For targets that can only be looked at: at most one open intent with the same
-- content per account.
CREATE TABLE open_intents (
    account     TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    job_id      BLOB    NOT NULL UNIQUE REFERENCES jobs (id),
    attempt     INTEGER NOT NULL,
    PRIMARY KEY (account, fingerprint)
) STRICT, WITHOUT ROWID;

-- The proof that a job's effect exists. One created object settles at most one
-- job; a row whose object turned out to be another job's no longer owns it.
CREATE TABLE effects (
    job_id       BLOB    PRIMARY KEY NOT NULL REFERENCES jobs (id),
    account      TEXT    NOT NULL,
    namespace    TEXT    NOT NULL,
    external_id  TEXT    NOT NULL,
    external_url TEXT    NOT NULL,
    owns_id      INTEGER NOT NULL DEFAULT 1 CHECK (owns_id IN (0, 1)),
    attempt      INTEGER NOT NULL,
    round        INTEGER NOT NULL,
    proof        INTEGER NOT NULL CHECK (proof BETWEEN 1 AND 5),
    at           INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX effects_object ON effects (account, namespace, external_id)
WHERE external_id <> '' AND owns_id = 1;

CREATE TABLE observations (
    id           INTEGER PRIMARY KEY,
    job_id       BLOB    NOT NULL REFERENCES jobs (id),
    attempt      INTEGER NOT NULL,
    verdict      INTEGER NOT NULL CHECK (verdict BETWEEN 1 AND 5),
    external_id  TEXT    NOT NULL,
    external_url TEXT    NOT NULL,
    handle       TEXT    NOT NULL,
    detail       TEXT    NOT NULL,
    begun_at     INTEGER,
    ended_at     INTEGER
) STRICT;

CREATE INDEX observations_job ON observations (job_id, id);

-- A person's rulings.
CREATE TABLE resolutions (
    id     INTEGER PRIMARY KEY,
    job_id BLOB    NOT NULL REFERENCES jobs (id),
    ruling INTEGER NOT NULL CHECK (ruling BETWEEN 1 AND 4),
    actor  TEXT    NOT NULL,
    note   TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

CREATE INDEX resolutions_job ON resolutions (job_id, id);

-- The log. Positions are never used twice; with one writer their order is the
-- order of the commits.
CREATE TABLE events (
    position      INTEGER PRIMARY KEY AUTOINCREMENT,
    project       TEXT    NOT NULL,
    job_id        BLOB    NOT NULL CHECK (length(job_id) = 16),
    connection_id BLOB    NOT NULL,
    schedule_id   BLOB,
    sequence      INTEGER NOT NULL CHECK (sequence >= 1),
    from_state    INTEGER NOT NULL CHECK (from_state BETWEEN 0 AND 11),
    to_state      INTEGER NOT NULL CHECK (to_state BETWEEN 1 AND 11),
    cause         INTEGER NOT NULL CHECK (cause BETWEEN 1 AND 19),
    attempt       INTEGER NOT NULL,
    actor         TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    detail        TEXT    NOT NULL,
    at            INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX events_job ON events (job_id, sequence);

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
