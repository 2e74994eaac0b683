-- The schema. Rules of this file:
--   * ids are 16-byte BLOBs, times are whole microseconds since 1970, UTC, durations are
--     microseconds;
--   * the numbers of states, causes and the like are those of the Go type that the column
--     names, and never change meaning;
--   * the state machine is guarded here too, for every program that writes. The guards of
--     tables that every job writes fail a statement instead of undoing it: a refused row is
--     not written either way, and SQLite need not keep a copy of every page that the
--     statement changes. Each guard judges one row. For the same reason checks there call
--     no function, so none checks the length of a token; references are checked at the
--     commit; and lists of more than two numbers are ranges or ORs, for which SQLite builds
--     no tree with each write.

-- +goose Up

--
-- The database itself, and its clock
--

CREATE TABLE meta (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    store_id      BLOB    NOT NULL CHECK (length(store_id) = 16),
    -- The installation's namespace, a part of every effect key.
    namespace     TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    -- Which file on which machine this database was last opened as.
    file_identity TEXT    NOT NULL,
    -- Rises with every open; the lock file beside the database knows it too.
    generation    INTEGER NOT NULL DEFAULT 0,
    -- Why; '': it is not quarantined.
    quarantined   TEXT    NOT NULL DEFAULT '',
    -- When it was last released from a quarantine; NULL: never.
    released_at   INTEGER,
    -- Rises when an open detects that the file was restored or copied: positions of an
    -- earlier incarnation are invalid in this one.
    incarnation   INTEGER NOT NULL DEFAULT 1 CHECK (incarnation >= 1),
    -- Events up to and including this position may have been dropped.
    events_from   INTEGER NOT NULL DEFAULT 0,
    -- Pages up to here were dropped, and the texts of events whose job is removed.
    dropped_to    INTEGER NOT NULL DEFAULT 0,
    -- 1 once an attempt was armed.
    armed_before  INTEGER NOT NULL DEFAULT 0 CHECK (armed_before IN (0, 1)),
    -- The stops that had not ended at the last change of one. 0: nothing is stopped, and no
    -- claim or arm asks.
    stops         INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The process's belief in the time. See store.Timeline.
CREATE TABLE clock (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    -- The run of the machine; empty: unknown.
    boot_id  TEXT    NOT NULL,
    -- The believed time when the machine's boot clock showed boot.
    at       INTEGER NOT NULL,
    boot     INTEGER NOT NULL,
    -- A suspect clock: since when, on the boot clock, how far the clock was off, and
    -- the time that it is behind; 0: none.
    since    INTEGER NOT NULL,
    off      INTEGER NOT NULL,
    floor    INTEGER NOT NULL,
    -- Rises with each step.
    steps    INTEGER NOT NULL DEFAULT 0,
    -- By how much all steps have moved what is stored.
    moved    INTEGER NOT NULL DEFAULT 0,
    -- 1 while a step is written, which may move fences back.
    stepping INTEGER NOT NULL DEFAULT 0 CHECK (stepping IN (0, 1))
) STRICT;

-- The processes that have served this file (store.Fleet): what is known of one beside its worker's
-- name. The next start removes rows of those that left no job under way.
CREATE TABLE servers (
    -- As in job_state.
    worker     TEXT    PRIMARY KEY NOT NULL,
    version    TEXT    NOT NULL,
    host       TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    -- It is shutting down.
    draining   INTEGER NOT NULL DEFAULT FALSE CHECK (draining IN (0, 1))
) STRICT;

--
-- Projects, connections and their credentials
--

CREATE TABLE projects (
    id           TEXT    PRIMARY KEY NOT NULL CHECK (id <> ''),
    display_name TEXT    NOT NULL DEFAULT '',
    created_at   INTEGER NOT NULL,
    -- When the project was last erased, and by which actor.
    erased_at    INTEGER,
    erased_by    TEXT    NOT NULL DEFAULT ''
) STRICT;

INSERT INTO projects (id, display_name, created_at)
VALUES ('default', 'Default', CAST(strftime('%s', 'now') AS INTEGER) * 1000000);

CREATE TABLE connections (
    id                     BLOB    PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    project                TEXT    NOT NULL,
    connector              TEXT    NOT NULL,
    display_name           TEXT    NOT NULL,
    labels                 TEXT    NOT NULL CHECK (json_valid(labels)),
    settings               BLOB    NOT NULL,
    -- job.Class: 1 KEYED, 2 HANDLE, 3 OBSERVABLE, 4 OPAQUE.
    class                  INTEGER NOT NULL CHECK (class BETWEEN 1 AND 4),
    key_window             INTEGER NOT NULL CHECK (key_window >= 0),
    account_identity       TEXT    NOT NULL,
    max_in_flight          INTEGER NOT NULL CHECK (max_in_flight >= 0),
    max_per_minute         INTEGER NOT NULL CHECK (max_per_minute >= 0),
    -- The token bucket: when its oldest free token was made. See store.Bucket.
    bucket_at              INTEGER NOT NULL DEFAULT 0,
    -- See store.CoolDown. 31 days at most; 0: none.
    cool_down              INTEGER NOT NULL CHECK (cool_down BETWEEN 0 AND 2678400000000),
    -- See job.RetryPolicy.Encode; '': it states nothing.
    retry                  TEXT    NOT NULL DEFAULT '',
    paused_at              INTEGER,
    paused_reason          TEXT    NOT NULL DEFAULT '',
    -- 0: it has none.
    credential_version     INTEGER NOT NULL DEFAULT 0 CHECK (credential_version >= 0),
    credential_fingerprint TEXT    NOT NULL DEFAULT '',
    credential_expires_at  INTEGER,
    -- The credential is renewed before its end, without a person.
    credential_renews      INTEGER NOT NULL DEFAULT 0 CHECK (credential_renews IN (0, 1)),
    -- '': none was given.
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
CREATE INDEX connections_connector ON connections (project, connector, created_at, id);
CREATE INDEX connections_account ON connections (project, account_identity, created_at, id) WHERE account_identity <> '';
-- Connections that count, by project.
CREATE INDEX connections_live ON connections (project) WHERE deleted_at IS NULL;
-- For store.Vitals.
CREATE INDEX connections_paused ON connections (connector) WHERE paused_at IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX connections_by_connector ON connections (connector) WHERE deleted_at IS NULL;
CREATE INDEX connections_expiring ON connections (credential_expires_at)
WHERE credential_expires_at IS NOT NULL AND NOT credential_renews AND deleted_at IS NULL;

-- One row for each label of a connection, in the order of the list. Every write of
-- connections.labels writes these rows too (see LabelConnection).
CREATE TABLE connection_labels (
    project       TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    value         TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    connection_id BLOB    NOT NULL,
    PRIMARY KEY (project, name, value, created_at, connection_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE connection_credentials (
    connection_id BLOB    NOT NULL REFERENCES connections (id),
    version       INTEGER NOT NULL CHECK (version >= 1),
    -- The key that data is sealed with.
    key_id        TEXT    NOT NULL,
    data          BLOB    NOT NULL,
    fingerprint   TEXT    NOT NULL,
    expires_at    INTEGER,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (connection_id, version)
) STRICT, WITHOUT ROWID;

-- Which keys are in use: every start reads it, and a rotation.
CREATE INDEX connection_credentials_key ON connection_credentials (key_id);

--
-- Claims and runnable rows

-- One row for each connection and hold key that ever had a job, called a runnable row.
-- Claim walks the rows with a runnable_at that has passed, so a held row costs it nothing,
-- however many jobs wait in it.
CREATE TABLE connection_ready (
    connection_id      BLOB    NOT NULL REFERENCES connections (id),
    hold_key           TEXT    NOT NULL,
    -- No runnable job is due earlier; NULL: there is none.
    next_at            INTEGER,
    paused             INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    auth_hold_at       INTEGER,
    auth_hold_reason   TEXT    NOT NULL DEFAULT '',
    -- job.AuthCause: 0 no hold, 1 CREDENTIAL_REFUSED, 2 CREDENTIAL_EXPIRED, 3 LOGIN_ENDED, 4 RENEWAL_LOST,
    -- 5 PERMISSION_MISSING, 6 ACCOUNT_BARRED, 7 ACCOUNT_MISMATCH.
    auth_hold_cause    INTEGER NOT NULL DEFAULT 0,
    rate_limited_until INTEGER NOT NULL DEFAULT 0,
    rate_limit_reason  TEXT    NOT NULL DEFAULT '',
    -- The connection has MaxInFlight jobs under way, until one of them ends.
    saturated          INTEGER NOT NULL DEFAULT 0 CHECK (saturated IN (0, 1)),
    -- The connection's token bucket is empty until then.
    paced_until        INTEGER NOT NULL DEFAULT 0,
    -- Claims leave the row alone until then: a stop covers it, or repeats go first (see
    -- store.Stops).
    stopped_until      INTEGER NOT NULL DEFAULT 0,
    -- When the row was last served, and the number of that service among all: rows that
    -- wait longer go first.
    served_at          INTEGER NOT NULL DEFAULT 0,
    served_turn        INTEGER NOT NULL DEFAULT 0,
    runnable_at        INTEGER GENERATED ALWAYS AS (
        CASE WHEN paused = 1 OR saturated = 1 OR auth_hold_at IS NOT NULL THEN NULL
        ELSE max(next_at, rate_limited_until, paced_until, stopped_until, served_at) END
    ) STORED,
    PRIMARY KEY (connection_id, hold_key),
    CONSTRAINT auth_hold_has_its_cause
        CHECK (auth_hold_cause BETWEEN 0 AND 31 AND (auth_hold_at IS NULL) = (auth_hold_cause = 0))
) STRICT, WITHOUT ROWID;

CREATE INDEX connection_ready_runnable ON connection_ready (runnable_at, served_turn) WHERE runnable_at IS NOT NULL;
-- The state of a connection depends on holds; most connections have none.
CREATE INDEX connection_ready_auth ON connection_ready (connection_id) WHERE auth_hold_at IS NOT NULL;
CREATE INDEX connection_ready_limited ON connection_ready (connection_id, rate_limited_until) WHERE rate_limited_until > 0;
-- The end of a stop makes the rows due that claims have set aside.
CREATE INDEX connection_ready_stopped ON connection_ready (connection_id, hold_key) WHERE stopped_until > 0;

-- The last arm of each connection and schedule that has a cool-down (see store.CoolDown).
CREATE TABLE cool_downs (
    owner    BLOB    PRIMARY KEY NOT NULL CHECK (length(owner) = 16),
    job_id   BLOB    NOT NULL CHECK (length(job_id) = 16),
    armed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

--
-- Jobs and their keys
--

-- The frozen request. The payload is the last column, so a list does not read it.
CREATE TABLE jobs (
    id              BLOB    PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    project         TEXT    NOT NULL,
    idem_key        TEXT    NOT NULL CHECK (idem_key <> ''),
    connection_id   BLOB    NOT NULL REFERENCES connections (id),
    hold_key        TEXT    NOT NULL,
    payload_kind    TEXT    NOT NULL,
    start_window    INTEGER NOT NULL CHECK (start_window >= 0),
    -- See job.RetryPolicy.Encode; '': the request states nothing.
    retry           TEXT    NOT NULL,
    attempt_timeout INTEGER NOT NULL,
    -- That of the job's schedule, as it was when the job was made. 31 days at most; 0: none.
    cool_down       INTEGER NOT NULL CHECK (cool_down BETWEEN 0 AND 2678400000000),
    -- See job.AlreadyPresent. 30 days at most; 0: the content is not looked for.
    skip_if_present INTEGER NOT NULL CHECK (skip_if_present BETWEEN 0 AND 2592000000000),
    -- job.Delivery: 1 ONCE_OR_ASK, 2 AT_MOST_ONCE, 3 AT_LEAST_ONCE.
    delivery        INTEGER NOT NULL CHECK (delivery BETWEEN 1 AND 3),
    -- The caller's effect key for the job's present round; '': it is derived.
    own_effect_key  TEXT    NOT NULL,
    labels          TEXT    NOT NULL CHECK (json_valid(labels)),
    time_zone       TEXT    NOT NULL,
    reply_to        BLOB    CHECK (length(reply_to) = 16),
    schedule_id     BLOB    CHECK (length(schedule_id) = 16),
    -- The trace context that the job was submitted in (job.Spec.Trace); '': none.
    trace           TEXT    NOT NULL DEFAULT '' CHECK (trace = '' OR length(trace) BETWEEN 55 AND 568),
    fingerprint     BLOB    NOT NULL,
    created_at      INTEGER NOT NULL,
    payload         BLOB    NOT NULL
) STRICT;

CREATE INDEX jobs_schedule ON jobs (schedule_id, created_at) WHERE schedule_id IS NOT NULL;
-- A job's replies.
CREATE INDEX jobs_reply ON jobs (reply_to) WHERE reply_to IS NOT NULL;
-- Keys by prefix.
CREATE INDEX jobs_key ON jobs (project, idem_key);

-- One key, one job. A row outlives its job: the key is bound by its digest, and its text
-- is removed with the job.
CREATE TABLE job_keys (
    -- See job.KeyDigest.
    digest     BLOB    PRIMARY KEY NOT NULL CHECK (length(digest) = 32),
    job_id     BLOB    NOT NULL CHECK (length(job_id) = 16),
    -- Set when the job is removed; NULL before.
    kept_until INTEGER
) STRICT, WITHOUT ROWID;

-- Keys that outlive their jobs.
CREATE INDEX job_keys_kept ON job_keys (kept_until) WHERE kept_until IS NOT NULL;

-- Effect keys that callers gave. Each is used once at a receiver, whatever the project,
-- and never again.
CREATE TABLE effect_keys (
    -- See job.EffectKeyDigest.
    digest BLOB PRIMARY KEY NOT NULL CHECK (length(digest) = 32),
    job_id BLOB NOT NULL CHECK (length(job_id) = 16)
) STRICT, WITHOUT ROWID;

-- The recipients of a job's payload: e-mail addresses in lower case, ids of direct messages
-- unchanged (see store.NewJob). These are personal data: code that erases a payload erases
-- them. They are removed with their job's row, and a new payload replaces them.
CREATE TABLE job_recipients (
    job_id    BLOB NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    project   TEXT NOT NULL,
    recipient TEXT NOT NULL,
    PRIMARY KEY (job_id, recipient)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_recipients_who ON job_recipients (project, recipient, job_id);

--
-- The state of jobs
--

-- The changing part of a job, with its newest attempt; earlier attempts are in attempts. It
-- has a rowid: with a primary key so wide a row would be in every level of the tree, and each
-- index would have the key. A job is listed under its state, but while it is CLAIMED or
-- SENDING under its earlier state: those moves change no list. Jobs under way, which are few,
-- are found by their fences.
CREATE TABLE job_state (
    job_id          BLOB    PRIMARY KEY NOT NULL REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    project         TEXT    NOT NULL,
    connection_id   BLOB    NOT NULL,
    hold_key        TEXT    NOT NULL,
    -- job.State: 1 SCHEDULED, 2 CLAIMED, 3 SENDING, 4 ACCEPTED, 5 AMBIGUOUS, 6 RETRYING, 7 NEEDS_RESOLUTION,
    -- 8 SUCCEEDED, 9 FAILED, 10 CANCELED, 11 EXPIRED.
    -- Which states there are is for the triggers, which are replaced without touching a row; the
    -- checks of a table are for as long as the table. So they have room: four bits of an event.
    state           INTEGER NOT NULL CHECK (state BETWEEN 1 AND 15),
    -- The job.State under which lists and counts have the job.
    listed          INTEGER NOT NULL,
    version         INTEGER NOT NULL CHECK (version >= 1),
    -- The number of the newest attempt; 0: there was none.
    attempt         INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    round           INTEGER NOT NULL DEFAULT 1 CHECK (round >= 1),
    failures        INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    claims          INTEGER NOT NULL DEFAULT 0 CHECK (claims >= 0),
    looks           INTEGER NOT NULL DEFAULT 0 CHECK (looks >= 0),
    negatives       INTEGER NOT NULL DEFAULT 0 CHECK (negatives >= 0),
    misses          INTEGER NOT NULL DEFAULT 0 CHECK (misses >= 0),
    schedule_time   INTEGER NOT NULL,
    -- No caller requested the time at which the window begins.
    unasked         INTEGER NOT NULL CHECK (unasked IN (0, 1)),
    -- The end of jobs.start_window, or of wait_window while the job waits; once the job has
    -- begun, of keep_trying.
    start_deadline  INTEGER NOT NULL,
    -- 0: the job has not begun.
    keep_trying     INTEGER NOT NULL DEFAULT 0 CHECK (keep_trying >= 0),
    -- When the job is due: the start, the lease's end, the fence, or the next look.
    next_at         INTEGER,
    claim_token     BLOB,
    claimed_at      INTEGER,
    worker          TEXT    NOT NULL DEFAULT '',
    -- job.Class, as in connections; frozen by the first arm.
    class           INTEGER NOT NULL CHECK (class BETWEEN 1 AND 4),
    -- The job whose success this one waits for, while it waits.
    waits_for       BLOB,
    -- The state in which the job of waits_for ended without success. 0: it has not.
    predecessor_end INTEGER NOT NULL,
    -- How long a reply waits for its predecessor, from its own time on. 0: as long as the
    -- program's default.
    wait_window     INTEGER NOT NULL,
    cancel_asked_at INTEGER,
    blocked         TEXT    NOT NULL DEFAULT '',
    -- job.FailureKind: 0 none, 1 AUTH, 2 PERMANENT, 3 RATE_LIMITED, 4 TRANSIENT, 5 AMBIGUOUS, 6 EGRESS_DENIED,
    -- 7 ATTEMPTS_EXHAUSTED, 8 WORKER_CRASH, 9 WINDOW_OVER, 10 PREDECESSOR_ENDED, 11 ALREADY_PRESENT.
    error_kind      INTEGER NOT NULL DEFAULT 0 CHECK (error_kind BETWEEN 0 AND 31),
    error_message   TEXT    NOT NULL DEFAULT '',
    error_status    INTEGER NOT NULL DEFAULT 0,
    error_at        INTEGER,
    -- The newest row of resolutions.
    resolution_id   INTEGER,
    -- The attempt that proves the effect with an answer that named no object: such a proof
    -- has
    -- no row in effects. It is of the round in which the job has SUCCEEDED, and as old as
    -- that.
    effect_attempt  INTEGER,
    -- A copy of jobs.created_at, for lists.
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    -- When the job entered its state.
    state_since     INTEGER NOT NULL,
    -- When its first attempt was armed. Only a step back changes it, to the time after it.
    first_armed_at  INTEGER,
    ended_at        INTEGER,
    -- The job's newest events (store/logpage), each written with the change that it
    -- describes.
    -- The last one has the row's version as its sequence.
    history         BLOB    NOT NULL,

    -- The newest attempt, NULL before the first one. Its columns come after those that every
    -- claim and list reads.
    armed_round        INTEGER,
    arm_token          BLOB,
    armed_by           TEXT,
    armed_claimed_at   INTEGER,
    armed_at           INTEGER,
    send_deadline      INTEGER,
    answer_deadline    INTEGER,
    -- After this the attempt can no longer act.
    fence_at           INTEGER,
    effect_key         TEXT,
    request_digest     BLOB,
    credential_version INTEGER,
    account_identity   TEXT,
    watermark          TEXT,
    handle             TEXT,
    -- The span of the request to the target (job.Span): 16 bytes of trace and 8 of the
    -- span; NULL: none.
    span               BLOB,
    -- job.Result: 0 no outcome yet, 1 SUCCEEDED, 2 REJECTED, 3 NOT_SENT, 4 UNKNOWN, 5 ACCEPTED, 6 SUPERSEDED,
    -- 7 ABSENT.
    result             INTEGER CHECK (result BETWEEN 0 AND 7),
    -- job.FailureKind, as in error_kind.
    kind               INTEGER CHECK (kind BETWEEN 0 AND 31),
    message            TEXT,
    http_status        INTEGER,
    bytes_written      INTEGER,
    -- 1: the target itself ended the exchange (job.Settled.PeerEnded).
    peer_ended         INTEGER NOT NULL DEFAULT 0 CHECK (peer_ended IN (0, 1)),
    attempt_ended_at   INTEGER,
    -- What the connection keeps of the target's answer (job.Answer); NULL: nothing.
    answer             BLOB,
    -- The request as it was armed; NULL once the job has SUCCEEDED, because no attempt
    -- follows.
    frozen             BLOB,

    CHECK (CASE attempt WHEN 0 THEN result IS NULL ELSE
        result IS NOT NULL AND armed_round IS NOT NULL AND arm_token IS NOT NULL AND armed_at IS NOT NULL AND fence_at IS NOT NULL
        AND effect_key IS NOT NULL AND request_digest IS NOT NULL
    END),
    -- NEEDS_RESOLUTION, the terminal states and those above have nothing due; all others do.
    CHECK ((next_at IS NULL) = (state >= 7)),
    CHECK (claim_token IS NULL OR state = 2 OR state = 4 OR state = 5),
    CHECK (state <> 2 OR claim_token IS NOT NULL),
    CHECK ((ended_at IS NULL) = (state < 8 OR state > 11)),
    CHECK (CASE state
        WHEN 2 THEN listed = 1 OR listed = 6
        WHEN 3 THEN listed = 1 OR listed = 5 OR listed = 6
        ELSE listed = state END)
) STRICT;

-- What a claim reads: SCHEDULED and RETRYING that wait for no other job.
CREATE INDEX job_state_runnable ON job_state (connection_id, hold_key, next_at, job_id)
WHERE state IN (1, 6) AND waits_for IS NULL;
-- The replies that wait for a job, by runnable row.
CREATE INDEX job_state_waiting ON job_state (waits_for, connection_id, hold_key, next_at, job_id)
WHERE waits_for IS NOT NULL;
-- Replies whose predecessor ended without success.
CREATE INDEX job_state_left ON job_state (updated_at, job_id) WHERE predecessor_end > 0 AND state IN (1, 6);
-- Windows: SCHEDULED, RETRYING, and CLAIMED or SENDING that came from there.
CREATE INDEX job_state_deadline ON job_state (start_deadline, job_id) WHERE listed IN (1, 6);
-- Leases and fences: CLAIMED and SENDING.
CREATE INDEX job_state_fence ON job_state (next_at, job_id, connection_id) WHERE state IN (2, 3);
-- No two jobs are SENDING under one token.
CREATE UNIQUE INDEX job_state_token ON job_state (arm_token) WHERE state = 3;
-- Looks and polls: ACCEPTED and AMBIGUOUS.
CREATE INDEX job_state_look ON job_state (next_at, job_id) WHERE state IN (4, 5);
-- Jobs that a stop has put off one by one (job.Stopped).
CREATE INDEX job_state_stopped ON job_state (next_at, job_id) WHERE blocked = 'waits for the end of a pause' AND state IN (1, 5, 6);
-- Unknown outcomes, for store.Vitals; there are few.
CREATE INDEX job_state_unknown ON job_state (state, updated_at, job_id) WHERE state IN (5, 7);
-- Lists and counts.
CREATE INDEX job_state_by_time ON job_state (project, listed, schedule_time, job_id, connection_id);
CREATE INDEX job_state_by_creation ON job_state (project, listed, created_at, job_id);
CREATE INDEX job_state_ended ON job_state (project, state, ended_at, connection_id, job_id) WHERE ended_at IS NOT NULL;
-- The oldest job for which other jobs' objects are still kept: of HANDLE and OBSERVABLE.
CREATE INDEX job_state_first_armed ON job_state (first_armed_at) WHERE class IN (2, 3) AND first_armed_at IS NOT NULL;
-- Most jobs have no error.
CREATE INDEX job_state_error ON job_state (project, error_kind) WHERE error_kind > 0;

-- +goose StatementBegin
CREATE TRIGGER job_state_insert BEFORE INSERT ON job_state
WHEN NEW.version <> 1 OR NEW.attempt <> 0 OR NEW.state <> 1
BEGIN
    SELECT RAISE(FAIL, 'a job starts as SCHEDULED, version 1, attempt 0');
END;
-- +goose StatementEnd

-- One condition for the table's rules. It has a copy of job.Transitions, which a test
-- compares with it: bit n of the number of state s is set if a job may go from s to n.
-- +goose StatementBegin
CREATE TRIGGER job_state_update BEFORE UPDATE ON job_state
WHEN
    CASE WHEN NEW.version = OLD.version + 2 THEN
        -- Two steps in one write: a claim that arms. The lease is never visible to another
        -- worker, and each step has its event.
        (OLD.state <> 1 AND OLD.state <> 6) OR NEW.state <> 3 OR OLD.waits_for IS NOT NULL
        OR NEW.claims <> 0 OR NEW.claimed_at IS NOT NEW.updated_at
    ELSE
        ((CASE OLD.state
            WHEN 1 THEN 3206 WHEN 2 THEN 4062 WHEN 3 THEN 1912 WHEN 4 THEN 2000 WHEN 5 THEN 2040 WHEN 6 THEN 4052
            WHEN 7 THEN 2000 WHEN 8 THEN 256 WHEN 9 THEN 832 WHEN 10 THEN 1344 WHEN 11 THEN 2368
        END) >> NEW.state) & 1 IS NOT 1
        -- A change of state raises the version by one.
        OR NEW.version <> OLD.version + 1 AND (OLD.state <> NEW.state OR NEW.version <> OLD.version)
    END
    -- An attempt rises by one, and only at an arm; a SENDING job was armed.
    OR NEW.attempt <> OLD.attempt AND (NEW.attempt <> OLD.attempt + 1 OR NEW.state <> 3 OR OLD.state = 3)
    OR NEW.state = 3 AND OLD.state <> 3 AND NEW.attempt <> OLD.attempt + 1
    -- An attempt keeps what it was armed with. It keeps a success, and other results are
    -- replaced only by better known ones.
    OR CASE WHEN NEW.attempt = OLD.attempt THEN
        NEW.arm_token IS NOT OLD.arm_token OR NEW.effect_key IS NOT OLD.effect_key
        OR NEW.request_digest IS NOT OLD.request_digest
        OR NEW.result <> OLD.result AND (
            OLD.result = 1 OR NEW.result = 0
            OR NEW.result = 4 AND NEW.handle = '' AND (OLD.result = 2 OR OLD.result = 3 OR OLD.result = 7)
        )
        OR NEW.fence_at < OLD.fence_at AND NOT EXISTS (SELECT 1 FROM clock WHERE stepping = 1)
    ELSE NEW.result <> 0 END
    -- A fence is never moved earlier, except by a step of the clock. The end of a quarantine
    -- raises it, which is no change of the job.
    OR NEW.state = 3 AND OLD.state = 3 AND (
        NEW.next_at < OLD.next_at AND NOT EXISTS (SELECT 1 FROM clock WHERE stepping = 1)
        OR NEW.next_at > OLD.next_at AND NEW.version <> OLD.version
    )
    -- A job keeps its id and its connection.
    OR NEW.job_id <> OLD.job_id OR NEW.connection_id <> OLD.connection_id
BEGIN
    SELECT RAISE(FAIL, 'the protocol has no such change of a job');
END;
-- +goose StatementEnd

-- The attempt before the one that begins is copied to attempts: no write can overwrite an
-- attempt without keeping it. At most one intent is live, and none while an attempt under
-- another key is open. A job has few attempts.
-- +goose StatementBegin
CREATE TRIGGER job_state_archive BEFORE UPDATE OF attempt ON job_state
WHEN OLD.attempt > 0 AND NEW.attempt <> OLD.attempt
BEGIN
    SELECT RAISE(FAIL, 'an earlier attempt is live, or open with another effect key')
    WHERE OLD.result = 0 OR OLD.result = 4 AND OLD.effect_key <> NEW.effect_key
        OR EXISTS (
            SELECT 1 FROM attempts AS a
            WHERE a.job_id = OLD.job_id AND (a.result = 0 OR a.result = 4 AND a.effect_key <> NEW.effect_key)
        );
    SELECT RAISE(FAIL, 'an arm token is used once')
    WHERE NEW.arm_token = OLD.arm_token
        OR EXISTS (SELECT 1 FROM attempts AS a WHERE a.job_id = OLD.job_id AND a.arm_token = NEW.arm_token);
    INSERT INTO attempts (
        job_id, number, round, arm_token, worker, claimed_at, armed_at, send_deadline, answer_deadline, fence_at,
        effect_key, request_digest, credential_version, account_identity, watermark, handle, span, result, kind, message,
        http_status, bytes_written, peer_ended, ended_at, answer, frozen
    ) VALUES (
        OLD.job_id, OLD.attempt, OLD.armed_round, OLD.arm_token, OLD.armed_by, OLD.armed_claimed_at, OLD.armed_at,
        OLD.send_deadline, OLD.answer_deadline, OLD.fence_at, OLD.effect_key, OLD.request_digest, OLD.credential_version,
        OLD.account_identity, OLD.watermark, OLD.handle, OLD.span, OLD.result, OLD.kind, OLD.message,
        OLD.http_status, OLD.bytes_written, OLD.peer_ended, OLD.attempt_ended_at, OLD.answer, OLD.frozen
    );
END;
-- +goose StatementEnd

-- Every 32 events begin a new history, and the old one is kept.
-- +goose StatementBegin
CREATE TRIGGER job_state_history BEFORE UPDATE OF version ON job_state
WHEN NEW.version / 32 <> OLD.version / 32
BEGIN
    INSERT INTO job_history (job_id, last_sequence, body) VALUES (OLD.job_id, OLD.version, OLD.history);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER job_state_delete BEFORE DELETE ON job_state
WHEN OLD.state < 8 OR OLD.state > 11
BEGIN
    SELECT RAISE(FAIL, 'a live job is never deleted');
END;
-- +goose StatementEnd

--
-- Attempts
--

-- The attempts before the newest one of their job, as job_state_archive writes them.
CREATE TABLE attempts (
    job_id             BLOB    NOT NULL REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    number             INTEGER NOT NULL CHECK (number >= 1),
    round              INTEGER NOT NULL CHECK (round >= 1),
    arm_token          BLOB    NOT NULL,
    worker             TEXT    NOT NULL,
    claimed_at         INTEGER,
    armed_at           INTEGER NOT NULL,
    send_deadline      INTEGER NOT NULL,
    answer_deadline    INTEGER NOT NULL,
    fence_at           INTEGER NOT NULL,
    effect_key         TEXT    NOT NULL,
    request_digest     BLOB    NOT NULL,
    credential_version INTEGER NOT NULL,
    account_identity   TEXT    NOT NULL,
    watermark          TEXT    NOT NULL,
    handle             TEXT    NOT NULL,
    span               BLOB,
    result             INTEGER NOT NULL CHECK (result BETWEEN 0 AND 7),
    kind               INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 31),
    message            TEXT    NOT NULL,
    http_status        INTEGER NOT NULL,
    bytes_written      INTEGER NOT NULL,
    peer_ended         INTEGER NOT NULL,
    ended_at           INTEGER,
    answer             BLOB,
    frozen             BLOB    NOT NULL,
    PRIMARY KEY (job_id, number)
) STRICT;

-- A job's own rows, for the queries of store/sqlstore.
CREATE VIEW job_head AS
SELECT
    s.job_id, s.project, s.connection_id, j.schedule_id, s.hold_key, s.state, s.version, 0 AS position, s.attempt, s.round,
    s.failures, s.claims, s.looks, s.negatives, s.misses, s.schedule_time, s.unasked, j.start_window, s.start_deadline, s.keep_trying,
    s.next_at, s.claim_token, s.claimed_at, s.worker, s.class, s.waits_for, s.predecessor_end, s.wait_window,
    s.cancel_asked_at, s.blocked, s.error_kind, s.error_message, s.error_status, s.error_at, s.resolution_id,
    s.effect_attempt, CASE WHEN s.effect_attempt IS NOT NULL THEN s.round END AS effect_round,
    CASE WHEN s.effect_attempt IS NOT NULL THEN s.ended_at END AS effect_at, s.updated_at, s.ended_at, s.armed_round,
    s.armed_at, s.fence_at, s.effect_key, s.request_digest, s.handle, s.result, s.peer_ended,
    coalesce(CASE WHEN s.attempt > 1 THEN (
        SELECT a.armed_at FROM attempts AS a WHERE a.job_id = s.job_id AND a.round = s.armed_round ORDER BY a.number LIMIT 1
    ) END, s.armed_at) AS round_armed_at
FROM job_state AS s JOIN jobs AS j ON j.id = s.job_id;

-- +goose StatementBegin
CREATE TRIGGER attempts_update BEFORE UPDATE ON attempts
WHEN OLD.result <> NEW.result
BEGIN
    SELECT RAISE(FAIL, 'a confirmed attempt stays confirmed') WHERE OLD.result = 1;
    SELECT RAISE(FAIL, 'what is known of an attempt is not forgotten')
    WHERE NEW.result = 0 OR NEW.result = 4 AND NEW.handle = '' AND (OLD.result = 2 OR OLD.result = 3 OR OLD.result = 7);
END;
-- +goose StatementEnd

-- A fence is never moved earlier, except by a step of the clock.
-- +goose StatementBegin
CREATE TRIGGER attempts_fence BEFORE UPDATE OF fence_at ON attempts
WHEN NEW.fence_at < OLD.fence_at AND NOT EXISTS (SELECT 1 FROM clock WHERE stepping = 1)
BEGIN
    SELECT RAISE(FAIL, 'a fence never comes earlier');
END;
-- +goose StatementEnd

-- For targets that can only be looked at: at most one open intent with the same
-- content in an account.
CREATE TABLE open_intents (
    account     TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    job_id      BLOB    NOT NULL UNIQUE REFERENCES jobs (id),
    attempt     INTEGER NOT NULL,
    PRIMARY KEY (account, fingerprint)
) STRICT, WITHOUT ROWID;

-- How many intents of such a content there have been, by rules.ContentBucket. Contents of one
-- bucket count together, so that there are never more than 65,536 rows.
CREATE TABLE content_arms (
    bucket INTEGER PRIMARY KEY NOT NULL,
    arms   INTEGER NOT NULL
) STRICT;

--
-- Effects, observations and resolutions
--

-- The proof that a job's effect exists. One created object settles at most one
-- job; a row whose object turned out to be another job's no longer owns it.
CREATE TABLE effects (
    job_id       BLOB    PRIMARY KEY NOT NULL,
    account      TEXT    NOT NULL,
    namespace    TEXT    NOT NULL,
    -- '': the platform named none.
    external_id  TEXT    NOT NULL,
    external_url TEXT    NOT NULL,
    owns_id      INTEGER NOT NULL DEFAULT 1 CHECK (owns_id IN (0, 1)),
    attempt      INTEGER NOT NULL,
    round        INTEGER NOT NULL,
    -- job.Proof: 1 RESPONSE, 2 OBSERVED, 3 KEY_REPLAY, 4 OPERATOR, 5 ASSUMED.
    proof        INTEGER NOT NULL CHECK (proof BETWEEN 1 AND 5),
    at           INTEGER NOT NULL,
    -- Another job that names the same object.
    shared_with  BLOB,
    -- Whether the job has its event of cause EFFECT_SHARED.
    told         INTEGER NOT NULL DEFAULT 0 CHECK (told IN (0, 1)),
    -- The row outlives its job where a look of another job may still find the object.
    job_removed  INTEGER NOT NULL DEFAULT 0 CHECK (job_removed IN (0, 1))
) STRICT;

CREATE UNIQUE INDEX effects_object ON effects (account, namespace, external_id)
WHERE external_id <> '' AND owns_id = 1;
-- Most effects have no external id.
CREATE INDEX effects_external ON effects (external_id) WHERE external_id <> '';
-- Effects that were confirmed by a repeat under the same key or by a look.
CREATE INDEX effects_recovered ON effects (at) WHERE proof IN (2, 3);
CREATE INDEX effects_removed ON effects (at) WHERE job_removed = 1;
-- Effects without a proof: by a ruling or a policy.
CREATE INDEX effects_unproven ON effects (at) WHERE proof IN (4, 5);

CREATE TABLE observations (
    id           INTEGER PRIMARY KEY,
    job_id       BLOB    NOT NULL REFERENCES jobs (id),
    attempt      INTEGER NOT NULL,
    -- job.Verdict: 1 PRESENT, 2 ABSENT, 3 INCONCLUSIVE, 4 CANDIDATES, 5 HANDLE.
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
    -- job.Ruling: 1 SENT, 2 NOT_SENT, 3 RESEND, 4 CANCEL.
    ruling INTEGER NOT NULL CHECK (ruling BETWEEN 1 AND 4),
    actor  TEXT    NOT NULL,
    note   TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

CREATE INDEX resolutions_job ON resolutions (job_id, id);

--
-- The event log
--

-- A page has the events of one project that one transaction wrote (store/logpage), so a
-- project is read without the pages of others. Positions rise by one with each event and are
-- never used twice; with one writer their order is the order of the commits. The positions of
-- a transaction's pages may interleave.
--
-- job.Cause: 1 SUBMITTED, 2 CLAIMED, 3 INTENT_STORED, 4 ANSWERED, 5 NOT_STARTED, 6 LEASE_EXPIRED, 7 ANSWER_OVERDUE,
-- 8 WINDOW_OVER, 9 LOOKED, 10 POLLED, 11 POLICY, 12 LATE_EVIDENCE, 13 CANCEL_REQUESTED, 14 RESOLVED,
-- 15 RETRY_REQUESTED, 16 RESCHEDULED, 17 RUN_NOW, 18 UPDATED, 19 DUPLICATE_EFFECT_SEEN, 20 RESTORED,
-- 21 EFFECT_SHARED, 22 PREDECESSOR_ENDED, 23 SENDER_LOST, 24 ALREADY_PRESENT.
CREATE TABLE event_pages (
    -- The position of the last event. The newest page stays: positions continue from it.
    position INTEGER PRIMARY KEY,
    first    INTEGER NOT NULL CHECK (first <= position),
    project  TEXT    NOT NULL,
    -- When the last event was written.
    at       INTEGER NOT NULL,
    events   INTEGER NOT NULL CHECK (events >= 1),
    -- The first attempts in the page; NULL: none.
    starts   BLOB,
    body     BLOB    NOT NULL
) STRICT;

CREATE INDEX event_pages_project ON event_pages (project, position, events);
-- Statistics of starts.
CREATE INDEX event_pages_starts ON event_pages (project, at) WHERE starts IS NOT NULL;

-- The older events of jobs that have many, moved from job_state.history.
CREATE TABLE job_history (
    job_id        BLOB    NOT NULL,
    -- The sequence of the last event.
    last_sequence INTEGER NOT NULL,
    body          BLOB    NOT NULL,
    PRIMARY KEY (job_id, last_sequence)
) STRICT, WITHOUT ROWID;

-- The texts of a person or a target, outside the log, so that they can be erased.
CREATE TABLE event_texts (
    job_id   BLOB    NOT NULL,
    sequence INTEGER NOT NULL,
    position INTEGER NOT NULL,
    reason   TEXT    NOT NULL,
    detail   TEXT    NOT NULL,
    PRIMARY KEY (job_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE INDEX event_texts_position ON event_texts (position);

--
-- Schedules, their firings and their queues
--

CREATE TABLE schedules (
    id                   BLOB    PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    project              TEXT    NOT NULL CHECK (project <> ''),
    idem_key             TEXT    NOT NULL CHECK (idem_key <> ''),
    -- See job.KeyDigest.
    key_digest           BLOB    NOT NULL CHECK (length(key_digest) = 32),
    fingerprint          BLOB    NOT NULL,
    -- version rises with changes by callers and of the state, revision with every write.
    version              INTEGER NOT NULL CHECK (version >= 1),
    revision             INTEGER NOT NULL CHECK (revision >= version),
    generation           INTEGER NOT NULL CHECK (generation >= 1),
    spec                 BLOB    NOT NULL,
    template             BLOB    NOT NULL,
    policies             BLOB    NOT NULL,
    connection_id        BLOB    NOT NULL CHECK (length(connection_id) = 16),
    display_name         TEXT    NOT NULL,
    labels               TEXT    NOT NULL CHECK (json_valid(labels)),
    -- Its firings take their content from its items.
    queued               INTEGER NOT NULL CHECK (queued IN (0, 1)),
    pause_after_failures INTEGER NOT NULL CHECK (pause_after_failures >= 0),
    -- store.ScheduleState: 1 ACTIVE, 2 PAUSED, 3 ENDED, 4 DELETED.
    state                INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
    -- store.PauseCause: 0 not paused, 1 by a person, 2 by failures, 3 by an auth hold, 4 by a refusal.
    pause_cause          INTEGER NOT NULL CHECK (pause_cause BETWEEN 0 AND 4),
    note                 TEXT    NOT NULL,
    paused_at            INTEGER,
    cursor_at            TEXT    NOT NULL CHECK (length(CAST(cursor_at AS BLOB)) <= 4096),
    -- Since when a decision is due, or when the next one will be; NULL: never.
    next_at              INTEGER,
    -- Until when the next decision waits because the last one was refused; NULL: it does not.
    postponed_until      INTEGER,
    -- Decisions in a row that were refused.
    refused_decisions    INTEGER NOT NULL CHECK (refused_decisions >= 0),
    -- The catch-up that goes on (store.CatchUp), as JSON; empty: none does.
    catch_up             TEXT    NOT NULL,
    -- The firing that waits, as JSON; empty: none does.
    buffered             TEXT    NOT NULL,
    -- Names, as a JSON list; empty: none.
    skips                TEXT    NOT NULL,
    -- Firings that made a job.
    run                  INTEGER NOT NULL CHECK (run >= 0),
    -- The newest local date on which it made jobs, and how many.
    day                  TEXT    NOT NULL CHECK (length(CAST(day AS BLOB)) <= 10),
    day_count            INTEGER NOT NULL CHECK (day_count >= 0 AND (day <> '' OR day_count = 0)),
    -- Firings by outcome (store.ScheduleCounts).
    fired                INTEGER NOT NULL CHECK (fired >= 0),
    skipped_by_overlap   INTEGER NOT NULL CHECK (skipped_by_overlap >= 0),
    skipped_by_person    INTEGER NOT NULL CHECK (skipped_by_person >= 0),
    skipped_by_limit     INTEGER NOT NULL CHECK (skipped_by_limit >= 0),
    no_content           INTEGER NOT NULL CHECK (no_content >= 0),
    missed               INTEGER NOT NULL CHECK (missed >= 0),
    coalesced            INTEGER NOT NULL CHECK (coalesced >= 0),
    refused              INTEGER NOT NULL CHECK (refused >= 0),
    -- Firings that may have taken place in a lost state of the database.
    held                 INTEGER NOT NULL CHECK (held >= 0),
    -- Items that were refused since one became a job, or a caller changed the schedule.
    refused_in_row       INTEGER NOT NULL CHECK (refused_in_row >= 0),
    -- The number of its newest firing.
    last_firing          INTEGER NOT NULL CHECK (last_firing >= 0),
    -- When the database was released from a quarantine; NULL: no firing is open. See
    -- store.Schedule.HeldUntil.
    held_until           INTEGER,
    -- Since when the ledger has all its firings.
    ledger_begin         INTEGER NOT NULL,
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    deleted_at           INTEGER,
    created_by           TEXT    NOT NULL,
    updated_by           TEXT    NOT NULL,
    CHECK ((pause_cause > 0) = (state = 2)),
    CHECK ((paused_at IS NULL) = (state <> 2)),
    CHECK (next_at IS NULL OR state = 1),
    CHECK (postponed_until IS NULL OR next_at IS NOT NULL),
    CHECK (catch_up = '' OR state = 1),
    CHECK (buffered = '' OR state = 1),
    CHECK ((deleted_at IS NULL) = (state <> 4)),
    CHECK (state <> 4 OR template = x'' AND note = '')
) STRICT;

CREATE UNIQUE INDEX schedules_key ON schedules (key_digest);
CREATE INDEX schedules_list ON schedules (project, created_at, id);
-- For quotas, and erasures of projects.
CREATE INDEX schedules_live ON schedules (project) WHERE state < 4;
-- Due schedules: those that wait for a later time are not read.
CREATE INDEX schedules_due ON schedules (coalesce(postponed_until, next_at)) WHERE next_at IS NOT NULL;
-- Those whose last decision was refused, and since when they are due.
CREATE INDEX schedules_postponed ON schedules (next_at) WHERE postponed_until IS NOT NULL;
-- For store.Vitals: those that go on, and those that are paused, by the cause.
CREATE INDEX schedules_open ON schedules (state, pause_cause) WHERE state < 3;

-- +goose StatementBegin
CREATE TRIGGER schedules_insert BEFORE INSERT ON schedules
WHEN NEW.state > 2 OR NEW.version <> 1 OR NEW.revision <> 1 OR NEW.generation <> 1 OR NEW.run <> 0
BEGIN
    SELECT RAISE(FAIL, 'a schedule starts as ACTIVE or PAUSED, version 1');
END;
-- +goose StatementEnd

-- Legal moves are those of store.ScheduleState.Next.
-- +goose StatementBegin
CREATE TRIGGER schedules_update BEFORE UPDATE ON schedules
WHEN OLD.state = 4 AND (NEW.revision <> OLD.revision OR NEW.state <> 4)
    OR OLD.state = 3 AND NEW.state = 2
    OR NEW.state <> OLD.state AND NEW.version <> OLD.version + 1
    OR NEW.version < OLD.version OR NEW.version > OLD.version + 1
    OR NEW.revision < OLD.revision OR NEW.revision > OLD.revision + 1
    OR NEW.revision = OLD.revision AND (
        NEW.version <> OLD.version OR NEW.cursor_at <> OLD.cursor_at OR NEW.buffered <> OLD.buffered OR NEW.run <> OLD.run
    )
    OR NEW.generation < OLD.generation OR NEW.run < OLD.run OR NEW.last_firing < OLD.last_firing
    OR NEW.id <> OLD.id OR NEW.project <> OLD.project OR NEW.idem_key <> OLD.idem_key OR NEW.key_digest <> OLD.key_digest
    OR NEW.fingerprint <> OLD.fingerprint OR NEW.created_at <> OLD.created_at
BEGIN
    SELECT RAISE(FAIL, 'a schedule has no such change');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER schedules_day BEFORE UPDATE ON schedules
WHEN NEW.day < OLD.day OR NEW.day = OLD.day AND NEW.day_count < OLD.day_count
BEGIN
    SELECT RAISE(FAIL, 'a schedule forgets no job of its day');
END;
-- +goose StatementEnd

-- Jobs of schedules that have not ended, separately for known and unknown outcomes. So the
-- newest of either kind is found, however many there are.
CREATE TABLE schedule_jobs (
    schedule_id BLOB    NOT NULL,
    -- 1: job.State.Unresolved.
    unresolved  INTEGER NOT NULL CHECK (unresolved IN (0, 1)),
    job_id      BLOB    NOT NULL,
    PRIMARY KEY (schedule_id, unresolved, job_id)
) STRICT, WITHOUT ROWID;

-- Outcomes of firings. A row is written once and not changed.
CREATE TABLE firings (
    schedule_id  BLOB    NOT NULL REFERENCES schedules (id),
    name         TEXT    NOT NULL CHECK (name <> '' AND length(CAST(name AS BLOB)) <= 200),
    -- Rises with the schedule's firings, in the order of their decisions.
    number       INTEGER NOT NULL CHECK (number >= 1),
    nominal_at   INTEGER NOT NULL,
    local_time   TEXT    NOT NULL,
    -- store.TimeMark: 0 an ordinary time, 1 SHIFTED, 2 FIRST_OF_TWO, 3 REPEATED.
    mark         INTEGER NOT NULL CHECK (mark BETWEEN 0 AND 3),
    -- store.FiringOrigin: 1 by time, 2 by catch-up, 3 by trigger, 4 by backfill.
    origin       INTEGER NOT NULL CHECK (origin BETWEEN 1 AND 4),
    -- store.FiringOutcome: 1 FIRED, 3 SKIPPED_BY_OVERLAP, 4 SKIPPED_BY_PERSON, 5 MISSED, 6 COALESCED, 7 REFUSED,
    -- 8 HELD, 9 NO_CONTENT, 10 SKIPPED_BY_LIMIT. 2 BUFFERED is in schedules.buffered.
    outcome      INTEGER NOT NULL CHECK (outcome BETWEEN 1 AND 10 AND outcome <> 2),
    reason       TEXT    NOT NULL,
    job_id       BLOB    CHECK ((job_id IS NOT NULL) = (outcome = 1)),
    blocking_job BLOB,
    run          INTEGER NOT NULL CHECK (run >= 0),
    decided_at   INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, name)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX firings_list ON firings (schedule_id, number);
CREATE INDEX firings_jobs ON firings (schedule_id, number) WHERE job_id IS NOT NULL;
CREATE INDEX firings_old ON firings (decided_at);

-- +goose StatementBegin
CREATE TRIGGER firings_update BEFORE UPDATE ON firings
BEGIN
    SELECT RAISE(FAIL, 'a firing is not changed');
END;
-- +goose StatementEnd

-- Queues: the content that waits for the firings of a schedule.
CREATE TABLE schedule_items (
    id           BLOB    PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    schedule_id  BLOB    NOT NULL REFERENCES schedules (id),
    idem_key     TEXT    NOT NULL CHECK (idem_key <> ''),
    fingerprint  BLOB    NOT NULL,
    version      INTEGER NOT NULL CHECK (version >= 1),
    -- store.ItemState: 1 WAITING, 2 USED, 3 REMOVED, 4 REFUSED.
    state        INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
    -- The order of the waiting items.
    place        INTEGER NOT NULL,
    -- Content, while the item is WAITING or REFUSED.
    payload      BLOB    NOT NULL CHECK (length(payload) <= 262144),
    payload_kind TEXT    NOT NULL,
    labels       TEXT    NOT NULL CHECK (json_valid(labels)),
    -- The firing and the job that used it.
    firing_name  TEXT    NOT NULL CHECK ((firing_name <> '') = (state = 2)),
    job_id       BLOB    CHECK ((job_id IS NOT NULL) = (state = 2)),
    -- Why it was refused.
    reason       TEXT    NOT NULL CHECK (reason = '' OR state = 4),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    -- When it left the queue.
    ended_at     INTEGER CHECK ((ended_at IS NULL) = (state = 1)),
    created_by   TEXT    NOT NULL,
    updated_by   TEXT    NOT NULL,
    CHECK (state IN (1, 4) OR payload = x'' AND labels = '{}')
) STRICT;

-- A key belongs to one item of its schedule forever.
CREATE UNIQUE INDEX schedule_items_key ON schedule_items (schedule_id, idem_key);
-- An item is one job, and a firing takes one item.
CREATE UNIQUE INDEX schedule_items_job ON schedule_items (job_id) WHERE job_id IS NOT NULL;
CREATE UNIQUE INDEX schedule_items_firing ON schedule_items (schedule_id, firing_name) WHERE firing_name <> '';
-- Items with content, in the order of the queue.
CREATE INDEX schedule_items_queue ON schedule_items (schedule_id, place, id) WHERE state IN (1, 4);
CREATE INDEX schedule_items_ended ON schedule_items (schedule_id, ended_at, id) WHERE ended_at IS NOT NULL;

-- +goose StatementBegin
CREATE TRIGGER schedule_items_insert BEFORE INSERT ON schedule_items
WHEN NEW.state <> 1 OR NEW.version <> 1
BEGIN
    SELECT RAISE(FAIL, 'an item starts as WAITING, version 1');
END;
-- +goose StatementEnd

-- Legal moves are those of store.ItemState.Next.
-- +goose StatementBegin
CREATE TRIGGER schedule_items_update BEFORE UPDATE ON schedule_items
WHEN OLD.state IN (2, 3)
    OR OLD.state = 4 AND NEW.state <> 3
    OR NEW.state <> OLD.state AND NEW.version <> OLD.version + 1
    OR NEW.version < OLD.version OR NEW.version > OLD.version + 1
    OR NEW.version = OLD.version AND (NEW.payload <> OLD.payload OR NEW.labels <> OLD.labels)
    OR NEW.id <> OLD.id OR NEW.schedule_id <> OLD.schedule_id OR NEW.idem_key <> OLD.idem_key
    OR NEW.fingerprint <> OLD.fingerprint OR NEW.created_at <> OLD.created_at
BEGIN
    SELECT RAISE(FAIL, 'an item of a schedule has no such change');
END;
-- +goose StatementEnd

--
-- Rollups: counts of events in buckets of time
--

-- The position up to which the log is counted, and the time of the last counted event.
CREATE TABLE rollup_place (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    position INTEGER NOT NULL,
    at       INTEGER NOT NULL
) STRICT;

INSERT INTO rollup_place (id, position, at) VALUES (1, 0, 0);

-- Numbers, and nothing that a client wrote: they outlive the jobs that they count. They are
-- in the order of reads and additions.
CREATE TABLE rollups (
    project       TEXT    NOT NULL,
    -- Zero in the counts of the whole project.
    connection_id BLOB    NOT NULL,
    -- store.Width: 1 a minute, 2 an hour, 3 a day.
    width         INTEGER NOT NULL,
    start_at      INTEGER NOT NULL,
    connector     TEXT    NOT NULL,
    -- job.Class, as in connections.
    class         INTEGER NOT NULL,
    -- store.Measure: 1 scheduled, 2 started, 3 attempts, 10 plus a terminal job.State ended so, 30 unknown,
    -- 40 plus a store.Known settled so: 1 found, 2 repeated, 3 late, 4 absent, 5 by a person, 6 by policy.
    measure       INTEGER NOT NULL,
    -- The bin of the histogram of durations (store.LastBin); -1: none.
    bin           INTEGER NOT NULL,
    count         INTEGER NOT NULL,
    PRIMARY KEY (project, connection_id, width, start_at, connector, class, measure, bin)
) STRICT, WITHOUT ROWID;

-- For removals.
CREATE INDEX rollups_age ON rollups (width, start_at);

--
-- API keys
--

CREATE TABLE api_keys (
    id           TEXT    PRIMARY KEY NOT NULL CHECK (id <> ''),
    project      TEXT    NOT NULL REFERENCES projects (id),
    name         TEXT    NOT NULL,
    -- The hash of the key itself, which is not stored.
    hash         BLOB    NOT NULL CHECK (length(hash) = 32),
    -- Separated by spaces.
    scopes       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT, WITHOUT ROWID;

-- The creation of a key checks the names of live keys.
CREATE INDEX api_keys_name ON api_keys (project, name) WHERE revoked_at IS NULL AND name <> '';
-- Keys that may be live, by project.
CREATE INDEX api_keys_project ON api_keys (project) WHERE revoked_at IS NULL;
-- All keys of a project.
CREATE INDEX api_keys_of ON api_keys (project);

--
-- OAuth: logins at platforms, and renewals
--

CREATE TABLE oauth_logins (
    -- Hash of the state, which is not stored.
    state        BLOB    PRIMARY KEY NOT NULL CHECK (length(state) = 32),
    project      TEXT    NOT NULL,
    actor        TEXT    NOT NULL,
    app          TEXT    NOT NULL,
    target       BLOB    NOT NULL,
    -- The key that sealed is sealed with.
    key_id       TEXT    NOT NULL,
    sealed       BLOB    NOT NULL,
    redirect_url TEXT    NOT NULL,
    return_url   TEXT    NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX oauth_logins_end ON oauth_logins (expires_at);
CREATE INDEX oauth_logins_project ON oauth_logins (project, expires_at);

-- Which owner has the lease to renew a connection's tokens (store.RenewalRow).
CREATE TABLE oauth_renewals (
    connection_id BLOB    PRIMARY KEY NOT NULL REFERENCES connections (id),
    version       INTEGER NOT NULL,
    owner         BLOB,
    until         INTEGER NOT NULL,
    tries         INTEGER NOT NULL CHECK (tries >= 0),
    begun_at      INTEGER,
    before_at     INTEGER
) STRICT, WITHOUT ROWID;

--
-- Erasure
--

-- Records of jobs that were erased on request. A new table with data of a job needs its line
-- in removeRows (store/sqlstore/retention.go).
CREATE TABLE erased_jobs (
    job_id        BLOB    PRIMARY KEY NOT NULL CHECK (length(job_id) = 16),
    project       TEXT    NOT NULL,
    -- See job.KeyDigest.
    key_digest    BLOB    NOT NULL CHECK (length(key_digest) = 32),
    -- job.State, as in job_state: a terminal one.
    state         INTEGER NOT NULL CHECK (state IN (8, 9, 10, 11)),
    -- job.Class, as in connections.
    class         INTEGER NOT NULL CHECK (class BETWEEN 1 AND 4),
    attempts      INTEGER NOT NULL CHECK (attempts >= 0),
    -- job.Proof of its effect, as in effects; 0: it had none.
    proof         INTEGER NOT NULL CHECK (proof BETWEEN 0 AND 5),
    effect_at     INTEGER,
    -- See store.ObjectDigest.
    object_digest BLOB    CHECK (length(object_digest) = 32),
    schedule_time INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    ended_at      INTEGER NOT NULL,
    erased_at     INTEGER NOT NULL,
    -- The actor that asked for it, without a name.
    actor         TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

--
-- Quotas
--

-- What each project stores. Every transaction that changes jobs updates it, because the cost
-- of
-- counting the rows would grow with their number.
CREATE TABLE project_use (
    project TEXT    PRIMARY KEY NOT NULL,
    jobs    INTEGER NOT NULL,
    -- Of payloads and answers, and of the content that waits in queues.
    bytes   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

--
-- Subscriptions and their notices
--

-- What reports to people and programs the events of a project. The next step of one is due when
-- the job of its notice has ended, and otherwise at next_at, or, unless only_then is set, when
-- the log has an event after position.
CREATE TABLE subscriptions (
    id             BLOB    PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    project        TEXT    NOT NULL CHECK (project <> ''),
    idem_key       TEXT    NOT NULL CHECK (idem_key <> ''),
    -- See job.KeyDigest.
    key_digest     BLOB    NOT NULL CHECK (length(key_digest) = 32),
    fingerprint    BLOB    NOT NULL,
    -- version rises with changes by callers and of the state, revision with every write.
    version        INTEGER NOT NULL CHECK (version >= 1),
    revision       INTEGER NOT NULL CHECK (revision >= version),
    -- The service keeps it for the callbacks to its connection.
    callbacks      INTEGER NOT NULL CHECK (callbacks IN (0, 1)),
    connection_id  BLOB    NOT NULL CHECK (length(connection_id) = 16),
    display_name   TEXT    NOT NULL,
    -- The contract's message. Empty once it is deleted.
    spec           BLOB    NOT NULL CHECK (length(spec) <= 16384),
    -- store.SubscriptionState: 1 ACTIVE, 2 PAUSED, 3 DELETED.
    state          INTEGER NOT NULL CHECK (state BETWEEN 1 AND 3),
    -- store.SubscriptionPause: 0 not paused, 1 by a person, 2 by failures.
    pause_cause    INTEGER NOT NULL CHECK (pause_cause BETWEEN 0 AND 2),
    note           TEXT    NOT NULL,
    paused_at      INTEGER,
    -- Events up to here are in notices, or in memory.
    position       INTEGER NOT NULL CHECK (position >= 0),
    incarnation    INTEGER NOT NULL CHECK (incarnation >= 1),
    -- What a decision needs of earlier events (internal/notice), as JSON; empty: nothing.
    memory         BLOB    NOT NULL CHECK (length(memory) <= 65536),
    next_at        INTEGER,
    only_then      INTEGER NOT NULL CHECK (only_then IN (0, 1)),
    -- What a person asked for: -1 a test, above 0 the notice to send again; 0: nothing.
    asked          INTEGER NOT NULL CHECK (asked >= -1),
    -- The number of its newest notice.
    number         INTEGER NOT NULL CHECK (number >= 0),
    -- The notice that is under way, with its job; or 0 and NULL: none is.
    open_number    INTEGER NOT NULL CHECK (open_number BETWEEN 0 AND number),
    open_job       BLOB    CHECK ((open_job IS NULL) = (open_number = 0)),
    -- The notice whose jobs have failed, how many, and since when; 0: none.
    failed_number  INTEGER NOT NULL CHECK (failed_number BETWEEN 0 AND number),
    failures       INTEGER NOT NULL CHECK ((failures > 0) = (failed_number > 0)),
    failing_at     INTEGER CHECK ((failing_at IS NULL) = (failed_number = 0)),
    last_error     TEXT    NOT NULL,
    delivered_at   INTEGER,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    deleted_at     INTEGER CHECK ((deleted_at IS NULL) = (state <> 3)),
    created_by     TEXT    NOT NULL,
    updated_by     TEXT    NOT NULL,
    CHECK ((pause_cause > 0) = (state = 2)),
    CHECK ((paused_at IS NULL) = (state <> 2)),
    CHECK (state <> 3 OR spec = x'' AND memory = x'' AND note = '')
) STRICT;

CREATE UNIQUE INDEX subscriptions_key ON subscriptions (key_digest);
CREATE INDEX subscriptions_list ON subscriptions (project, created_at, id);
-- Those that may have a step to make.
CREATE INDEX subscriptions_live ON subscriptions (id) WHERE state = 1 OR open_job IS NOT NULL OR asked <> 0;
-- Counts of those that are not deleted (store.Vitals).
CREATE INDEX subscriptions_counted ON subscriptions (state, pause_cause, failed_number) WHERE state < 3;
-- The notices under way, which pass a stop of their project.
CREATE INDEX subscriptions_open ON subscriptions (connection_id) WHERE open_job IS NOT NULL;

-- +goose StatementBegin
CREATE TRIGGER subscriptions_update BEFORE UPDATE ON subscriptions
WHEN NEW.revision <> OLD.revision + 1
    OR NEW.version < OLD.version OR NEW.version > OLD.version + 1
    OR OLD.state = 3 AND (NEW.state <> 3 OR NEW.version <> OLD.version)
    OR NEW.state <> OLD.state AND NEW.version <> OLD.version + 1
    OR NEW.number < OLD.number OR NEW.number > OLD.number + 1
    OR NEW.id <> OLD.id OR NEW.project <> OLD.project OR NEW.idem_key <> OLD.idem_key OR NEW.key_digest <> OLD.key_digest
    OR NEW.fingerprint <> OLD.fingerprint OR NEW.created_at <> OLD.created_at OR NEW.callbacks <> OLD.callbacks
BEGIN
    SELECT RAISE(FAIL, 'a subscription has no such change');
END;
-- +goose StatementEnd

-- The connections by which the ends of jobs are reported (store.NewJob.Callback).
CREATE TABLE job_callbacks (
    job_id        BLOB     PRIMARY KEY NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    connection_id BLOB     NOT NULL
) STRICT, WITHOUT ROWID;

-- What was sent for a subscription. A row is open exactly while its job is under way.
CREATE TABLE notices (
    subscription_id BLOB    NOT NULL REFERENCES subscriptions (id),
    number          INTEGER NOT NULL CHECK (number >= 1),
    -- store.NoticeKind: 1 EVENTS, 2 DIGEST, 3 TEST, 4 SILENCE, 5 RECOVERED, 6 CONNECTIONS.
    kind            INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 7),
    -- It reports the events after one position, up to another one.
    after_position  INTEGER NOT NULL,
    to_position     INTEGER NOT NULL CHECK (to_position >= after_position),
    incarnation     INTEGER NOT NULL CHECK (incarnation >= 1),
    events          INTEGER NOT NULL CHECK (events >= 0),
    -- Jobs that carry it, and the newest of them.
    tries           INTEGER NOT NULL CHECK (tries >= 1),
    job_id          BLOB    NOT NULL,
    made_at         INTEGER NOT NULL,
    ended_at        INTEGER,
    -- job.State in which the newest job has ended; 0: it has not.
    outcome         INTEGER NOT NULL CHECK ((outcome = 0) = (ended_at IS NULL)),
    PRIMARY KEY (subscription_id, number)
) STRICT, WITHOUT ROWID;

-- At most one is under way, so they are sent in order.
CREATE UNIQUE INDEX notices_open ON notices (subscription_id) WHERE ended_at IS NULL;

-- Which server makes notices, and until when.
CREATE TABLE notice_place (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    worker TEXT    NOT NULL,
    until  INTEGER NOT NULL
) STRICT;

INSERT INTO notice_place (id, worker, until) VALUES (1, '', 0);

--
-- Stops
--

-- What keeps jobs from starting (store.Stops).
CREATE TABLE stops (
    id            BLOB    PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    -- store.StopScope: 1 everything, 2 a project, 3 a connector, 4 a connection, 5 a destination,
    -- 6 a label.
    scope         INTEGER NOT NULL CHECK (scope BETWEEN 1 AND 31),
    -- '': every project.
    project       TEXT    NOT NULL,
    connector     TEXT    NOT NULL,
    connection_id BLOB    CHECK (length(connection_id) = 16),
    hold_key      TEXT    NOT NULL,
    label         TEXT    NOT NULL,
    value         TEXT    NOT NULL,
    -- store.StopCause: 1 a person, 2 a breaker.
    cause         INTEGER NOT NULL CHECK (cause BETWEEN 1 AND 31),
    note          TEXT    NOT NULL,
    begin_at      INTEGER NOT NULL,
    -- NULL: it ends when a caller ends it.
    end_at        INTEGER,
    -- A caller stated begin_at or end_at.
    planned       INTEGER NOT NULL CHECK (planned IN (0, 1)),
    created_at    INTEGER NOT NULL,
    -- Actors, as in events.
    created_by    TEXT    NOT NULL,
    -- When a caller ended it, and which; NULL: no one has.
    ended_at      INTEGER,
    ended_by      TEXT    NOT NULL DEFAULT '',
    -- A window that ends in it begins again (store.Stop.HoldWindows).
    hold_windows  INTEGER NOT NULL CHECK (hold_windows IN (0, 1)),
    -- Of a breaker: from when on one job may be its probe or, while one is, until when that
    -- one's result counts; the claim token of that job; and the probes in a row that failed.
    probe_at      INTEGER,
    prober        BLOB    CHECK (length(prober) = 16),
    probes        INTEGER NOT NULL DEFAULT 0,
    CHECK ((cause = 2) = (probe_at IS NOT NULL)),
    CHECK (end_at > begin_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX stops_wide ON stops (scope, id) WHERE ended_at IS NULL AND scope NOT IN (4, 5);
CREATE INDEX stops_connection ON stops (connection_id) WHERE ended_at IS NULL AND scope = 4;
CREATE INDEX stops_destination ON stops (hold_key) WHERE ended_at IS NULL AND scope = 5 AND cause <> 2;
CREATE INDEX stops_list ON stops (created_at, id);
CREATE INDEX stops_holding ON stops (id) WHERE hold_windows;
-- A destination of a connection has one breaker: the next one takes the place of the last.
CREATE UNIQUE INDEX stops_breaker ON stops (connection_id, hold_key) WHERE cause = 2;

--
-- Plans: changes of many jobs
--

-- A change of many jobs that a person plans, starts, and may leave (store.Plan).
CREATE TABLE plans (
    id          BLOB    PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    project     TEXT    NOT NULL,
    -- store.PlanOp: 1 RESOLVE, 2 RETRY.
    op          INTEGER NOT NULL CHECK (op BETWEEN 1 AND 15),
    -- job.Ruling, as in resolutions; 0 with RETRY.
    ruling      INTEGER NOT NULL CHECK (ruling BETWEEN 0 AND 4),
    -- Also jobs that are still looked for.
    override    INTEGER NOT NULL CHECK (override IN (0, 1)),
    -- RETRY: the time between two jobs; 0: none.
    pace        INTEGER NOT NULL CHECK (pace >= 0),
    -- The incident that it decides; '': it was made of others.
    incident    TEXT    NOT NULL,
    note        TEXT    NOT NULL,
    -- Actors, as in events.
    created_by  TEXT    NOT NULL,
    started_by  TEXT    NOT NULL DEFAULT '',
    -- store.PlanState: 1 PLANNED, 2 RUNNING, 3 DONE.
    state       INTEGER NOT NULL CHECK (state BETWEEN 1 AND 3),
    pages       INTEGER NOT NULL CHECK (pages >= 0),
    -- Jobs that it lists, of these jobs that it is to change, and of these jobs that it has
    -- changed, and that it has left out.
    jobs        INTEGER NOT NULL CHECK (jobs >= 0),
    planned     INTEGER NOT NULL CHECK (planned BETWEEN 0 AND jobs),
    changed     INTEGER NOT NULL DEFAULT 0 CHECK (changed >= 0),
    left_out    INTEGER NOT NULL DEFAULT 0 CHECK (left_out >= 0),
    -- That of meta as the plan was made: its versions mean nothing in another.
    incarnation INTEGER NOT NULL,
    -- More jobs were concerned than a plan can have.
    cut         INTEGER NOT NULL CHECK (cut IN (0, 1)),
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    -- When its last page was finished.
    advanced_at INTEGER,
    ended_at    INTEGER,
    CHECK ((started_at IS NULL) = (state = 1)),
    CHECK ((ended_at IS NULL) = (state <> 3)),
    CHECK (changed + left_out <= planned)
) STRICT;

CREATE INDEX plans_project ON plans (project, created_at, id);
CREATE INDEX plans_running ON plans (advanced_at, id) WHERE state = 2;

-- The jobs of a plan, at most 500 a page (store.EncodePlanItems).
CREATE TABLE plan_pages (
    plan_id  BLOB    NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
    number   INTEGER NOT NULL CHECK (number >= 0),
    finished INTEGER NOT NULL DEFAULT FALSE CHECK (finished IN (0, 1)),
    items    BLOB    NOT NULL,
    PRIMARY KEY (plan_id, number)
) STRICT, WITHOUT ROWID;

-- +goose Down
-- There is no down migration: a schema is only ever replaced by a newer one.
SELECT 1;
