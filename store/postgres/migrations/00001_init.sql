-- The first schema. Rules of this file:
--   * ids are uuid, times are timestamptz with whole microseconds;
--   * numbers of states, causes and the like are those of internal/job and never
--     change meaning;
--   * the status machine is guarded here too, whoever writes: each trigger's WHEN
--     names what is forbidden, so that a lawful write calls no function.

-- +goose Up

CREATE TABLE meta (
    id             smallint    PRIMARY KEY CHECK (id = 1),
    store_id       uuid        NOT NULL,
    created_at     timestamptz NOT NULL,
    -- What this database was when it was last open: the cluster and its timeline,
    -- the database in it, and this very table, which a dump makes anew.
    system_id      bigint      NOT NULL,
    timeline       bigint      NOT NULL,
    database_oid   bigint      NOT NULL,
    relation_oid   bigint      NOT NULL,
    quarantined    text        NOT NULL DEFAULT '',
    -- Rises whenever the database turns out to be restored or copied.
    incarnation    bigint      NOT NULL DEFAULT 1 CHECK (incarnation >= 1),
    -- Added to transaction ids in positions, so that positions go on rising in a
    -- cluster whose transaction ids are behind those of the one before.
    xid_offset     bigint      NOT NULL DEFAULT 0,
    -- Events up to and including this position may have been dropped.
    events_from    bigint      NOT NULL DEFAULT 0
);

CREATE TABLE projects (
    id           text        PRIMARY KEY CHECK (id <> ''),
    display_name text        NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now()
);

INSERT INTO projects (id, display_name) VALUES ('default', 'Default');

CREATE TABLE connections (
    id                     uuid        PRIMARY KEY,
    project                text        NOT NULL,
    connector              text        NOT NULL,
    display_name           text        NOT NULL,
    settings               bytea       NOT NULL,
    class                  smallint    NOT NULL CHECK (class BETWEEN 1 AND 4),
    -- Microseconds.
    key_window             bigint      NOT NULL CHECK (key_window >= 0),
    account_identity       text        NOT NULL,
    max_in_flight          bigint      NOT NULL CHECK (max_in_flight >= 0),
    max_per_minute         bigint      NOT NULL CHECK (max_per_minute >= 0),
    paused_at              timestamptz,
    paused_reason          text        NOT NULL DEFAULT '',
    credential_version     bigint      NOT NULL DEFAULT 0 CHECK (credential_version >= 0),
    credential_fingerprint text        NOT NULL DEFAULT '',
    credential_expires_at  timestamptz,
    idem_key               text        NOT NULL,
    fingerprint            bytea       NOT NULL,
    version                bigint      NOT NULL CHECK (version >= 1),
    created_at             timestamptz NOT NULL,
    updated_at             timestamptz NOT NULL,
    deleted_at             timestamptz
);

CREATE UNIQUE INDEX connections_key ON connections (project, idem_key) WHERE idem_key <> '';
CREATE INDEX connections_list ON connections (project, created_at, id);

-- The row that claims of one connection take turns on, so that its bounds hold
-- across servers. Apart from connections, whose row every new job refers to.
CREATE TABLE connection_claims (
    connection_id uuid   PRIMARY KEY REFERENCES connections (id),
    -- The token bucket, in microseconds since 1970: when its oldest free token
    -- was made. See store.Bucket.
    bucket_at     bigint NOT NULL DEFAULT 0
);

CREATE TABLE connection_credentials (
    connection_id uuid        NOT NULL REFERENCES connections (id),
    version       bigint      NOT NULL CHECK (version >= 1),
    key_id        text        NOT NULL,
    data          bytea       NOT NULL,
    fingerprint   text        NOT NULL,
    expires_at    timestamptz,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (connection_id, version)
);

CREATE INDEX connection_credentials_key ON connection_credentials (key_id);

-- The frozen request.
CREATE TABLE jobs (
    id              uuid        PRIMARY KEY,
    project         text        NOT NULL,
    idem_key        text        NOT NULL CHECK (idem_key <> ''),
    connection_id   uuid        NOT NULL REFERENCES connections (id),
    payload_kind    text        NOT NULL,
    -- Durations are microseconds.
    start_window    bigint      NOT NULL CHECK (start_window >= 0),
    max_attempts    bigint      NOT NULL,
    min_backoff     bigint      NOT NULL,
    max_backoff     bigint      NOT NULL,
    attempt_timeout bigint      NOT NULL,
    policy          smallint    NOT NULL CHECK (policy BETWEEN 1 AND 3),
    labels          jsonb       NOT NULL CHECK (jsonb_typeof(labels) = 'object'),
    time_zone       text        NOT NULL,
    reply_to        uuid        REFERENCES jobs (id),
    schedule_id     uuid,
    fingerprint     bytea       NOT NULL,
    created_at      timestamptz NOT NULL,
    payload         bytea       NOT NULL
);

CREATE INDEX jobs_created ON jobs (project, created_at, id);
CREATE INDEX jobs_labels ON jobs USING gin (labels jsonb_path_ops) WHERE labels <> '{}';
CREATE INDEX jobs_schedule ON jobs (schedule_id, created_at) WHERE schedule_id IS NOT NULL;

-- One key, one job. A row outlives its job; kept_until is set when the job is
-- removed and is NULL while it lives.
CREATE TABLE job_keys (
    project    text NOT NULL,
    idem_key   text NOT NULL,
    job_id     uuid NOT NULL,
    kept_until timestamptz,
    PRIMARY KEY (project, idem_key)
);

-- The narrow, changing part of a job.
CREATE TABLE job_state (
    job_id          uuid        PRIMARY KEY REFERENCES jobs (id),
    project         text        NOT NULL,
    connection_id   uuid        NOT NULL,
    hold_key        text        NOT NULL,
    state           smallint    NOT NULL CHECK (state BETWEEN 1 AND 11),
    version         bigint      NOT NULL CHECK (version >= 1),
    -- Of the newest event. A transaction's id is given before it has all its
    -- locks, so a later writer can have a lower one: it must start again, or the
    -- log would tell the job's story out of order.
    position        bigint      NOT NULL,
    attempt         bigint      NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    round           bigint      NOT NULL DEFAULT 1 CHECK (round >= 1),
    failures        bigint      NOT NULL DEFAULT 0 CHECK (failures >= 0),
    claims          bigint      NOT NULL DEFAULT 0 CHECK (claims >= 0),
    looks           bigint      NOT NULL DEFAULT 0 CHECK (looks >= 0),
    negatives       bigint      NOT NULL DEFAULT 0 CHECK (negatives >= 0),
    scheduled_for   timestamptz NOT NULL,
    start_deadline  timestamptz NOT NULL,
    -- The start, the lease's end, the fence, or the next look.
    next_at         timestamptz,
    claim_token     uuid,
    claimed_at      timestamptz,
    worker          text        NOT NULL DEFAULT '',
    class           smallint    NOT NULL CHECK (class BETWEEN 1 AND 4),
    -- The job whose success this one waits for, as long as it does.
    waits_for       uuid,
    cancel_asked_at timestamptz,
    blocked         text        NOT NULL DEFAULT '',
    error_kind      smallint    NOT NULL DEFAULT 0 CHECK (error_kind BETWEEN 0 AND 10),
    error_message   text        NOT NULL DEFAULT '',
    error_status    bigint      NOT NULL DEFAULT 0,
    error_at        timestamptz,
    -- The newest row of resolutions.
    resolution_id   bigint,
    updated_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    -- States that wait for nobody have nothing due; all others do.
    CHECK ((next_at IS NULL) = (state IN (7, 8, 9, 10, 11))),
    CHECK (claim_token IS NULL OR state IN (2, 4, 5)),
    CHECK (state <> 2 OR claim_token IS NOT NULL),
    CHECK ((ended_at IS NULL) = (state NOT IN (8, 9, 10, 11)))
);

-- What a claim reads: SCHEDULED and RETRYING that wait for no other job.
CREATE INDEX job_state_runnable ON job_state (connection_id, hold_key, next_at)
    WHERE state IN (1, 6) AND waits_for IS NULL;
CREATE INDEX job_state_waiting ON job_state (waits_for) WHERE waits_for IS NOT NULL;
-- Leases and fences: CLAIMED and SENDING.
CREATE INDEX job_state_fence ON job_state (next_at) WHERE state IN (2, 3);
-- Looks and polls: ACCEPTED and AMBIGUOUS.
CREATE INDEX job_state_look ON job_state (next_at) WHERE state IN (4, 5);
CREATE INDEX job_state_deadline ON job_state (start_deadline) WHERE state IN (1, 2, 6);
CREATE INDEX job_state_in_flight ON job_state (connection_id) WHERE state IN (2, 3);
-- Lists, of all states and by state, and counts.
CREATE INDEX job_state_list ON job_state (project, scheduled_for, job_id);
CREATE INDEX job_state_by_state ON job_state (project, state, scheduled_for, job_id);
CREATE INDEX job_state_ended ON job_state (project, ended_at, state) WHERE ended_at IS NOT NULL;

-- A copy of job.Transitions, which a test compares with it.
-- +goose StatementBegin
CREATE FUNCTION legal_transition(from_state smallint, to_state smallint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN from_state = to_state AND from_state <> 0 OR from_state * 16 + to_state = ANY (ARRAY[
    0 * 16 + 1,
    1 * 16 + 2, 1 * 16 + 7, 1 * 16 + 10, 1 * 16 + 11,
    2 * 16 + 1, 2 * 16 + 6, 2 * 16 + 3, 2 * 16 + 9, 2 * 16 + 10, 2 * 16 + 11, 2 * 16 + 4, 2 * 16 + 8, 2 * 16 + 7,
    3 * 16 + 8, 3 * 16 + 4, 3 * 16 + 6, 3 * 16 + 9, 3 * 16 + 10, 3 * 16 + 5,
    6 * 16 + 2, 6 * 16 + 10, 6 * 16 + 11, 6 * 16 + 4, 6 * 16 + 8, 6 * 16 + 7,
    5 * 16 + 3, 5 * 16 + 8, 5 * 16 + 4, 5 * 16 + 6, 5 * 16 + 11, 5 * 16 + 9, 5 * 16 + 10, 5 * 16 + 7,
    7 * 16 + 8, 7 * 16 + 4, 7 * 16 + 6, 7 * 16 + 9, 7 * 16 + 10,
    4 * 16 + 8, 4 * 16 + 9, 4 * 16 + 6, 4 * 16 + 10, 4 * 16 + 7,
    9 * 16 + 6, 9 * 16 + 8, 11 * 16 + 6, 11 * 16 + 8, 10 * 16 + 8
]);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'integrity_constraint_violation', MESSAGE = TG_ARGV[0],
        CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER job_state_insert BEFORE INSERT ON job_state FOR EACH ROW
WHEN (NEW.version <> 1 OR NEW.attempt <> 0 OR NOT legal_transition(0::smallint, NEW.state))
EXECUTE FUNCTION refuse('a job starts as SCHEDULED, version 1, attempt 0');

CREATE TRIGGER job_state_transition BEFORE UPDATE ON job_state FOR EACH ROW
WHEN (NOT legal_transition(OLD.state, NEW.state))
EXECUTE FUNCTION refuse('illegal transition');

CREATE TRIGGER job_state_version BEFORE UPDATE ON job_state FOR EACH ROW
WHEN (NEW.version <> OLD.version + 1 AND (OLD.state <> NEW.state OR NEW.version <> OLD.version))
EXECUTE FUNCTION refuse('a change of state raises the version by one');

CREATE TRIGGER job_state_position BEFORE UPDATE ON job_state FOR EACH ROW
WHEN ((NEW.version <> OLD.version) <> (NEW.position > OLD.position))
EXECUTE FUNCTION refuse('the events of a job are in the order of their positions');

CREATE TRIGGER job_state_attempt BEFORE UPDATE ON job_state FOR EACH ROW
WHEN (NEW.attempt <> OLD.attempt AND (NEW.attempt <> OLD.attempt + 1 OR NEW.state <> 3 OR OLD.state = 3))
EXECUTE FUNCTION refuse('an attempt rises by one, and only at an arm');

CREATE TRIGGER job_state_armed BEFORE UPDATE ON job_state FOR EACH ROW
WHEN (NEW.state = 3 AND OLD.state <> 3 AND NEW.attempt <> OLD.attempt + 1)
EXECUTE FUNCTION refuse('a job that is being sent was armed');

-- It is raised when a quarantine ends, which is no change of the job.
CREATE TRIGGER job_state_fence_moves BEFORE UPDATE ON job_state FOR EACH ROW
WHEN (NEW.state = 3 AND OLD.state = 3
    AND (NEW.next_at < OLD.next_at OR NEW.next_at > OLD.next_at AND NEW.version <> OLD.version))
EXECUTE FUNCTION refuse('a fence never comes earlier, and moves only by itself');

CREATE TRIGGER job_state_identity BEFORE UPDATE ON job_state FOR EACH ROW
WHEN (NEW.job_id <> OLD.job_id OR NEW.connection_id <> OLD.connection_id)
EXECUTE FUNCTION refuse('a job keeps its id and its connection');

CREATE TRIGGER job_state_delete BEFORE DELETE ON job_state FOR EACH ROW
WHEN (OLD.state NOT IN (8, 9, 10, 11))
EXECUTE FUNCTION refuse('a live job is never deleted');

-- One row for each connection and hold key that ever had a job. Claim walks the
-- rows whose runnable_at has come, so that a held row costs it nothing,
-- whatever waits behind it.
CREATE TABLE connection_ready (
    connection_id      uuid        NOT NULL REFERENCES connections (id),
    hold_key           text        NOT NULL,
    -- No runnable job is due earlier; NULL: there is none.
    next_at            timestamptz,
    paused             boolean     NOT NULL DEFAULT false,
    auth_hold_at       timestamptz,
    auth_hold_reason   text        NOT NULL DEFAULT '',
    rate_limited_until timestamptz NOT NULL DEFAULT 'epoch',
    rate_limit_reason  text        NOT NULL DEFAULT '',
    -- The connection has MaxInFlight jobs under way; ends when one of them ends.
    saturated          boolean     NOT NULL DEFAULT false,
    -- The connection's token bucket is empty until then.
    paced_until        timestamptz NOT NULL DEFAULT 'epoch',
    -- When the row was last served: rows that wait longer go first.
    served_at          timestamptz NOT NULL DEFAULT 'epoch',
    runnable_at        timestamptz GENERATED ALWAYS AS (
        CASE WHEN paused OR saturated OR auth_hold_at IS NOT NULL OR next_at IS NULL THEN NULL
        ELSE greatest(next_at, rate_limited_until, paced_until, served_at) END
    ) STORED,
    PRIMARY KEY (connection_id, hold_key)
);

CREATE INDEX connection_ready_runnable ON connection_ready (runnable_at) WHERE runnable_at IS NOT NULL;

CREATE TABLE attempts (
    job_id             uuid        NOT NULL REFERENCES jobs (id),
    number             bigint      NOT NULL CHECK (number >= 1),
    round              bigint      NOT NULL CHECK (round >= 1),
    arm_token          uuid        NOT NULL,
    worker             text        NOT NULL,
    claimed_at         timestamptz,
    armed_at           timestamptz NOT NULL,
    send_deadline      timestamptz NOT NULL,
    answer_deadline    timestamptz NOT NULL,
    -- After this the attempt can no longer act.
    fence_at           timestamptz NOT NULL,
    effect_key         text        NOT NULL,
    request_digest     bytea       NOT NULL,
    credential_version bigint      NOT NULL,
    account_identity   text        NOT NULL,
    watermark          text        NOT NULL,
    handle             text        NOT NULL DEFAULT '',
    -- 0: no outcome yet.
    result             smallint    NOT NULL DEFAULT 0 CHECK (result BETWEEN 0 AND 7),
    kind               smallint    NOT NULL DEFAULT 0 CHECK (kind BETWEEN 0 AND 10),
    message            text        NOT NULL DEFAULT '',
    http_status        bigint      NOT NULL DEFAULT 0,
    bytes_written      bigint      NOT NULL DEFAULT 0,
    ended_at           timestamptz,
    frozen             bytea       NOT NULL,
    PRIMARY KEY (job_id, number)
);

CREATE UNIQUE INDEX attempts_arm_token ON attempts (arm_token);
-- At most one live intent per job.
CREATE UNIQUE INDEX attempts_live ON attempts (job_id) WHERE result = 0;

-- Each job's first attempt. lag is how long after its time, as it was then, the
-- job was armed, in microseconds.
CREATE TABLE starts (
    project       text        NOT NULL,
    armed_at      timestamptz NOT NULL,
    job_id        uuid        NOT NULL,
    connection_id uuid        NOT NULL,
    lag           bigint      NOT NULL,
    PRIMARY KEY (project, armed_at, job_id)
);

-- +goose StatementBegin
CREATE FUNCTION another_key_is_open(job uuid, effect_key text) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (SELECT 1 FROM attempts AS a
    WHERE a.job_id = job AND a.result IN (0, 4) AND a.effect_key <> another_key_is_open.effect_key);
-- +goose StatementEnd

CREATE TRIGGER attempts_insert BEFORE INSERT ON attempts FOR EACH ROW
WHEN (another_key_is_open(NEW.job_id, NEW.effect_key))
EXECUTE FUNCTION refuse('an earlier attempt is open and has another effect key');

CREATE TRIGGER attempts_confirmed BEFORE UPDATE ON attempts FOR EACH ROW
WHEN (OLD.result = 1 AND NEW.result <> 1)
EXECUTE FUNCTION refuse('a confirmed attempt stays confirmed');

CREATE TRIGGER attempts_fence BEFORE UPDATE OF fence_at ON attempts FOR EACH ROW
WHEN (NEW.fence_at < OLD.fence_at)
EXECUTE FUNCTION refuse('a fence never comes earlier');

CREATE TRIGGER attempts_forgotten BEFORE UPDATE ON attempts FOR EACH ROW
WHEN (OLD.result <> NEW.result AND (NEW.result = 0
    OR NEW.result = 4 AND OLD.result IN (2, 3, 7) AND NEW.handle = ''))
EXECUTE FUNCTION refuse('what is known of an attempt is not forgotten');

-- For targets that can only be looked at: at most one open intent with the same
-- content per account.
CREATE TABLE open_intents (
    account     text   NOT NULL,
    fingerprint bytea  NOT NULL,
    job_id      uuid   NOT NULL UNIQUE REFERENCES jobs (id),
    attempt     bigint NOT NULL,
    PRIMARY KEY (account, fingerprint)
);

-- The proof that a job's effect exists. One created object settles at most one
-- job; a row whose object turned out to be another job's no longer owns it.
CREATE TABLE effects (
    job_id       uuid        PRIMARY KEY REFERENCES jobs (id),
    account      text        NOT NULL,
    namespace    text        NOT NULL,
    external_id  text        NOT NULL,
    external_url text        NOT NULL,
    owns_id      boolean     NOT NULL DEFAULT true,
    attempt      bigint      NOT NULL,
    round        bigint      NOT NULL,
    proof        smallint    NOT NULL CHECK (proof BETWEEN 1 AND 5),
    at           timestamptz NOT NULL
);

-- Effects that a repeat under the same key or a look has confirmed.
CREATE INDEX effects_recovered ON effects (at) WHERE proof IN (2, 3);
CREATE UNIQUE INDEX effects_object ON effects (account, namespace, external_id)
    WHERE external_id <> '' AND owns_id;

CREATE TABLE observations (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id       uuid        NOT NULL REFERENCES jobs (id),
    attempt      bigint      NOT NULL,
    verdict      smallint    NOT NULL CHECK (verdict BETWEEN 1 AND 5),
    external_id  text        NOT NULL,
    external_url text        NOT NULL,
    handle       text        NOT NULL,
    detail       text        NOT NULL,
    begun_at     timestamptz,
    ended_at     timestamptz
);

CREATE INDEX observations_job ON observations (job_id, id);

-- A person's rulings.
CREATE TABLE resolutions (
    id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id uuid        NOT NULL REFERENCES jobs (id),
    ruling smallint    NOT NULL CHECK (ruling BETWEEN 1 AND 4),
    actor  text        NOT NULL,
    note   text        NOT NULL,
    at     timestamptz NOT NULL
);

CREATE INDEX resolutions_job ON resolutions (job_id, id);

-- The log. A position is the writing transaction's id times 2^20, plus the
-- event's number in that transaction: a reader who stops before the oldest
-- transaction that is still under way has seen everything before it, for good.
CREATE TABLE events (
    position      bigint      PRIMARY KEY,
    project       text        NOT NULL,
    job_id        uuid        NOT NULL,
    connection_id uuid        NOT NULL,
    schedule_id   uuid,
    sequence      bigint      NOT NULL CHECK (sequence >= 1),
    from_state    smallint    NOT NULL CHECK (from_state BETWEEN 0 AND 11),
    to_state      smallint    NOT NULL CHECK (to_state BETWEEN 1 AND 11),
    cause         smallint    NOT NULL CHECK (cause BETWEEN 1 AND 20),
    attempt       bigint      NOT NULL,
    actor         text        NOT NULL,
    reason        text        NOT NULL,
    detail        text        NOT NULL,
    at            timestamptz NOT NULL
);

CREATE UNIQUE INDEX events_job ON events (job_id, sequence);

-- +goose StatementBegin
CREATE FUNCTION event_position(ordinal integer) RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (((pg_current_xact_id()::text::bigint) + (SELECT m.xid_offset FROM meta AS m WHERE m.id = 1)) << 20) + ordinal;
-- +goose StatementEnd

-- Everything up to and including this position is visible, and nothing will be
-- added there. It must be read in the same statement as the events.
-- +goose StatementBegin
CREATE FUNCTION event_horizon() RETURNS bigint
LANGUAGE sql STABLE
RETURN ((pg_snapshot_xmin(pg_current_snapshot())::text::bigint + (SELECT m.xid_offset FROM meta AS m WHERE m.id = 1)) << 20) - 1;
-- +goose StatementEnd

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
