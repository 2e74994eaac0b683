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
    -- When the base backup was made that the cluster was last started from, '' if from
    -- none; NULL until a role that may look has looked.
    base_backup    text,
    quarantined    text        NOT NULL DEFAULT '',
    -- Rises whenever the database turns out to be restored or copied.
    incarnation    bigint      NOT NULL DEFAULT 1 CHECK (incarnation >= 1),
    -- Added to transaction ids in positions, so that positions go on rising in a
    -- cluster whose transaction ids are behind those of the one before.
    xid_offset     bigint      NOT NULL DEFAULT 0,
    -- Events up to and including this position may have been dropped.
    events_from    bigint      NOT NULL DEFAULT 0,
    -- Rises with each step of the clock.
    clock_steps    bigint      NOT NULL DEFAULT 0
);

-- What the servers believe about the database's clock (see store.Timeline). Apart from
-- meta, which every write reads: a row that changes often grows a tail of versions.
CREATE TABLE clock (
    id      smallint    PRIMARY KEY CHECK (id = 1),
    -- The newest time that some server believed.
    at      timestamptz NOT NULL DEFAULT 'epoch',
    -- Some server doubts the clock, and none has believed it since.
    doubted boolean     NOT NULL DEFAULT false
);

INSERT INTO clock (id) VALUES (1);

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
    deleted_at             timestamptz,
    -- Actors, as in events.
    created_by             text        NOT NULL DEFAULT '',
    updated_by             text        NOT NULL DEFAULT ''
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
    connection_id   uuid        NOT NULL,
    payload_kind    text        NOT NULL,
    max_attempts    bigint      NOT NULL,
    -- Durations are microseconds.
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

-- The narrow, changing part of a job, and of the request what each change needs.
-- Each change of state writes the row anew and with it an entry in every index
-- whose condition the new row meets: so no index holds what another one gives, and
-- the states of work under way, CLAIMED and SENDING, are in two of their own.
CREATE TABLE job_state (
    job_id          uuid        PRIMARY KEY,
    project         text        NOT NULL,
    connection_id   uuid        NOT NULL,
    schedule_id     uuid,
    hold_key        text        NOT NULL,
    state           smallint    NOT NULL,
    version         bigint      NOT NULL,
    -- Of the newest event. A transaction's id is given before it has all its
    -- locks, so a later writer can have a lower one: it must start again, or the
    -- log would tell the job's story out of order.
    position        bigint      NOT NULL,
    attempt         bigint      NOT NULL DEFAULT 0,
    round           bigint      NOT NULL DEFAULT 1,
    failures        bigint      NOT NULL DEFAULT 0,
    claims          bigint      NOT NULL DEFAULT 0,
    looks           bigint      NOT NULL DEFAULT 0,
    negatives       bigint      NOT NULL DEFAULT 0,
    misses          bigint      NOT NULL DEFAULT 0,
    schedule_time   timestamptz NOT NULL,
    -- Microseconds.
    start_window    bigint      NOT NULL,
    start_deadline  timestamptz NOT NULL,
    -- The start, the lease's end, the fence, or the next look.
    next_at         timestamptz,
    claim_token     uuid,
    claimed_at      timestamptz,
    worker          text        NOT NULL DEFAULT '',
    class           smallint    NOT NULL,
    -- The job whose success this one waits for, as long as it does.
    waits_for       uuid,
    cancel_asked_at timestamptz,
    blocked         text        NOT NULL DEFAULT '',
    error_kind      smallint    NOT NULL DEFAULT 0,
    error_message   text        NOT NULL DEFAULT '',
    error_status    bigint      NOT NULL DEFAULT 0,
    error_at        timestamptz,
    -- The newest row of resolutions.
    resolution_id   bigint,
    -- The effect of a job that SUCCEEDED, where the platform's own answer is the proof
    -- and gave it no name: then nothing else is to be said of it, and it has no row of
    -- effects.
    effect_attempt  bigint,
    effect_round    bigint,
    effect_at       timestamptz,
    updated_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    -- One condition: each one of its own would be read and compiled anew by every
    -- statement that writes.
    CONSTRAINT job_state_row CHECK (
        state BETWEEN 1 AND 11 AND version >= 1 AND round >= 1
        AND attempt >= 0 AND failures >= 0 AND claims >= 0 AND looks >= 0 AND negatives >= 0 AND misses >= 0
        AND start_window >= 0 AND class BETWEEN 1 AND 4 AND error_kind BETWEEN 0 AND 10
        -- States that wait for nobody have nothing due; all others do.
        AND (next_at IS NULL) = (state IN (7, 8, 9, 10, 11))
        AND (claim_token IS NULL OR state IN (2, 4, 5))
        AND (state <> 2 OR claim_token IS NOT NULL)
        AND (ended_at IS NULL) = (state NOT IN (8, 9, 10, 11))
        AND (effect_at IS NULL OR state = 8)
    )
);

-- What a claim reads: SCHEDULED and RETRYING that wait for no other job.
CREATE INDEX job_state_runnable ON job_state (connection_id, hold_key, next_at)
    WHERE state IN (1, 6) AND waits_for IS NULL;
CREATE INDEX job_state_waiting ON job_state (waits_for) WHERE waits_for IS NOT NULL;
-- The windows of those that have not begun.
CREATE INDEX job_state_deadline ON job_state (start_deadline) WHERE state IN (1, 6);
-- CLAIMED and SENDING: the end of the lease, or of the window if that is earlier,
-- and the fence.
CREATE INDEX job_state_fence ON job_state ((CASE WHEN state = 2 THEN least(next_at, start_deadline) ELSE next_at END))
    WHERE state IN (2, 3);
CREATE INDEX job_state_in_flight ON job_state (connection_id) WHERE state IN (2, 3);
-- Looks and polls: ACCEPTED and AMBIGUOUS.
CREATE INDEX job_state_look ON job_state (next_at) WHERE state IN (4, 5);
-- Lists, state by state, and counts; those under way are few.
CREATE INDEX job_state_by_state ON job_state (project, state, schedule_time, job_id)
    WHERE state IN (1, 4, 5, 6, 7, 8, 9, 10, 11);
CREATE INDEX job_state_ended ON job_state (project, ended_at, state) WHERE ended_at IS NOT NULL;

-- A copy of job.Transitions, which a test compares with it: bit n of element s
-- says that a job may go from state s to state n. It stays short because every
-- statement that writes states compiles it.
-- +goose StatementBegin
CREATE FUNCTION legal_transition(from_state smallint, to_state smallint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(('[0:11]={2,3206,4062,1912,2000,4088,3540,2000,256,832,1280,2368}'::integer[])[from_state] >> to_state & 1 = 1, false);
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

-- One trigger, because its condition too is compiled by every statement.
CREATE TRIGGER job_state_update BEFORE UPDATE ON job_state FOR EACH ROW
WHEN (
    NOT legal_transition(OLD.state, NEW.state)
    -- A change of state raises the version by one.
    OR NEW.version <> OLD.version + 1 AND (OLD.state <> NEW.state OR NEW.version <> OLD.version)
    -- The events of a job are in the order of their positions.
    OR (NEW.version <> OLD.version) <> (NEW.position > OLD.position)
    -- An attempt rises by one, and only at an arm; what is being sent was armed.
    OR NEW.attempt <> OLD.attempt AND (NEW.attempt <> OLD.attempt + 1 OR NEW.state <> 3 OR OLD.state = 3)
    OR NEW.state = 3 AND OLD.state <> 3 AND NEW.attempt <> OLD.attempt + 1
    -- A fence never comes earlier, but with the clock. It is raised when a quarantine
    -- ends, which is no change of the job.
    OR NEW.state = 3 AND OLD.state = 3 AND (
        NEW.next_at < OLD.next_at AND current_setting('fireonce.stepping', true) IS DISTINCT FROM 'on'
        OR NEW.next_at > OLD.next_at AND NEW.version <> OLD.version
    )
    -- A job keeps its id, its project and its connection.
    OR NEW.job_id <> OLD.job_id OR NEW.connection_id <> OLD.connection_id OR NEW.project <> OLD.project
)
EXECUTE FUNCTION refuse('the protocol has no such change of a job');

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
    job_id             uuid        NOT NULL,
    number             bigint      NOT NULL,
    round              bigint      NOT NULL,
    arm_token          uuid        NOT NULL,
    worker             text        NOT NULL,
    claimed_at         timestamptz,
    armed_at           timestamptz NOT NULL,
    -- How long after the job's time, as it was then, its first attempt was armed, in
    -- microseconds.
    lag                bigint,
    -- Whose start it is; of the first attempt only, too.
    connection_id      uuid,
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
    result             smallint    NOT NULL DEFAULT 0,
    kind               smallint    NOT NULL DEFAULT 0,
    message            text        NOT NULL DEFAULT '',
    http_status        bigint      NOT NULL DEFAULT 0,
    bytes_written      bigint      NOT NULL DEFAULT 0,
    ended_at           timestamptz,
    frozen             bytea       NOT NULL,
    PRIMARY KEY (job_id, number),
    CONSTRAINT attempts_row CHECK (
        number >= 1 AND round >= 1 AND (lag IS NOT NULL) = (number = 1)
        AND (connection_id IS NOT NULL) = (number = 1) AND result BETWEEN 0 AND 7 AND kind BETWEEN 0 AND 10
    )
)
-- Room for most outcomes on the page of their attempt.
WITH (fillfactor = 70);

-- No index has a column that an outcome changes, so that it stays on its page.
CREATE UNIQUE INDEX attempts_arm_token ON attempts (arm_token);
-- Starts, in their order, with all that is asked of them.
CREATE INDEX attempts_first ON attempts (armed_at) INCLUDE (connection_id, lag) WHERE number = 1;

-- At most one live intent per job. A first attempt has nothing before it. A later one
-- follows the one before it, and none of those before it is live, nor open under
-- another key; what has an outcome never comes to live again (attempts_update), and
-- two cannot follow the same one.
-- +goose StatementBegin
CREATE FUNCTION may_follow(job uuid, attempt bigint, effect_key text) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (SELECT 1 FROM attempts AS a WHERE a.job_id = job AND a.number = attempt - 1)
    AND NOT EXISTS (SELECT 1 FROM attempts AS a WHERE a.job_id = job
        AND (a.result = 0 OR a.result = 4 AND a.effect_key <> may_follow.effect_key));
-- +goose StatementEnd

CREATE TRIGGER attempts_insert BEFORE INSERT ON attempts FOR EACH ROW
WHEN (NEW.number > 1 AND NOT may_follow(NEW.job_id, NEW.number, NEW.effect_key))
EXECUTE FUNCTION refuse('the attempt cannot follow those before it: one is missing, live, or open under another key');

-- A confirmed attempt stays confirmed, a fence never comes earlier, but with the clock,
-- and what is known of an attempt is not forgotten.
CREATE TRIGGER attempts_update BEFORE UPDATE ON attempts FOR EACH ROW
WHEN (
    OLD.result = 1 AND NEW.result <> 1
    OR NEW.fence_at < OLD.fence_at AND current_setting('fireonce.stepping', true) IS DISTINCT FROM 'on'
    OR OLD.result <> NEW.result AND (NEW.result = 0
        OR NEW.result = 4 AND OLD.result IN (2, 3, 7) AND NEW.handle = '')
)
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
    job_id       uuid        PRIMARY KEY,
    account      text        NOT NULL,
    namespace    text        NOT NULL,
    external_id  text        NOT NULL,
    external_url text        NOT NULL,
    owns_id      boolean     NOT NULL DEFAULT true,
    attempt      bigint      NOT NULL,
    round        bigint      NOT NULL,
    proof        smallint    NOT NULL CHECK (proof BETWEEN 1 AND 5),
    at           timestamptz NOT NULL,
    -- Another job that names the same object.
    shared_with  uuid,
    -- Whether the job has got its event of cause EFFECT_SHARED.
    told         boolean     NOT NULL DEFAULT false
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
    sequence      bigint      NOT NULL,
    from_state    smallint    NOT NULL,
    to_state      smallint    NOT NULL,
    cause         smallint    NOT NULL,
    attempt       bigint      NOT NULL,
    actor         text        NOT NULL,
    reason        text        NOT NULL,
    detail        text        NOT NULL,
    at            timestamptz NOT NULL,
    CONSTRAINT events_row CHECK (
        sequence >= 1 AND from_state BETWEEN 0 AND 11 AND to_state BETWEEN 1 AND 11 AND cause BETWEEN 1 AND 21
    )
);

CREATE UNIQUE INDEX events_job ON events (job_id, sequence);

-- The references of the tables that every job writes. Each is checked once for a
-- whole statement: a foreign key asks, and locks, row by row. That no row loses
-- what it refers to between the check and the commit follows from the locks of
-- those who write: states and all that belongs to them under the lock of the
-- state's row, which a deletion takes too; connections are never deleted.

-- +goose StatementBegin
CREATE FUNCTION check_states() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM written AS w
        LEFT JOIN jobs AS j ON j.id = w.job_id
        LEFT JOIN connections AS c ON c.id = j.connection_id
        WHERE c.id IS NULL OR j.connection_id <> w.connection_id OR j.project <> w.project)
    THEN
        RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
            MESSAGE = 'a state needs its job and its connection';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION check_has_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM written AS w WHERE NOT EXISTS (SELECT 1 FROM job_state AS s WHERE s.job_id = w.job_id)) THEN
        RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
            MESSAGE = 'no such job';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION check_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM deleted AS d WHERE EXISTS (SELECT 1 FROM job_state AS s WHERE s.job_id = d.id)
        OR EXISTS (SELECT 1 FROM attempts AS a WHERE a.job_id = d.id)
        OR EXISTS (SELECT 1 FROM effects AS e WHERE e.job_id = d.id))
    THEN
        RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
            MESSAGE = 'a job is deleted with all that belongs to it';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER job_state_references AFTER INSERT ON job_state REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION check_states();
CREATE TRIGGER attempts_references AFTER INSERT ON attempts REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION check_has_state();
CREATE TRIGGER effects_references AFTER INSERT ON effects REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION check_has_state();
CREATE TRIGGER jobs_references AFTER DELETE ON jobs REFERENCING OLD TABLE AS deleted
FOR EACH STATEMENT EXECUTE FUNCTION check_deleted();

-- Everything up to and including this position is visible, and nothing will be
-- added there. It must be read in the same statement as the events.
-- +goose StatementBegin
CREATE FUNCTION event_horizon() RETURNS bigint
LANGUAGE sql STABLE
RETURN ((pg_snapshot_xmin(pg_current_snapshot())::text::bigint + (SELECT m.xid_offset FROM meta AS m WHERE m.id = 1)) << 20) - 1;
-- +goose StatementEnd

-- A statement that writes a batch counts by itself what it wrote: its parts share a
-- round trip with others. Nothing is called as long as the numbers are the same.

-- +goose StatementBegin
CREATE FUNCTION miscounted(got bigint, want integer, code text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = format('%s rows were to be written, %s could be', want, got);
END
$$;
-- +goose StatementEnd

-- What was judged on locked rows is so when it is written.
-- +goose StatementBegin
CREATE FUNCTION all_written(got bigint, want integer) RETURNS boolean LANGUAGE sql VOLATILE
RETURN CASE WHEN got = want THEN true ELSE miscounted(got, want, '23000') END;
-- +goose StatementEnd

-- What was judged on rows that nobody locks may be otherwise by then: the
-- transaction runs again.
-- +goose StatementBegin
CREATE FUNCTION none_overtaken(got bigint, want integer) RETURNS boolean LANGUAGE sql VOLATILE
RETURN CASE WHEN got = want THEN true ELSE miscounted(got, want, '40001') END;
-- +goose StatementEnd

-- +goose Down
-- There is no way down: a schema is only ever replaced by a newer one.
SELECT 1;
