-- The schema. Rules of this file:
--   * ids are uuid, times are timestamptz with whole microseconds, durations are bigint
--     microseconds;
--   * the numbers of states, causes and the like are those of the Go type that the column
--     names, and never change meaning;
--   * the state machine is guarded here too, for every program that writes: each trigger's
--     WHEN names what is forbidden, so that a lawful write calls no function.

-- +goose Up

-- Refuses a write with the trigger's argument as the message.
-- +goose StatementBegin
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'integrity_constraint_violation', MESSAGE = TG_ARGV[0],
        CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
END
$$;
-- +goose StatementEnd

-- A statement that writes a batch counts by itself what it wrote, because its parts share a
-- round trip with others. Equal numbers call no function.
-- +goose StatementBegin
CREATE FUNCTION miscounted(got bigint, want integer, code text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = format('%s rows were to be written, %s could be', want, got);
END
$$;
-- +goose StatementEnd

-- A judgment on locked rows must still hold when it is written.
-- +goose StatementBegin
CREATE FUNCTION all_written(got bigint, want integer) RETURNS boolean LANGUAGE sql VOLATILE
RETURN CASE WHEN got = want THEN true ELSE miscounted(got, want, '23000') END;
-- +goose StatementEnd

-- A judgment on rows without a lock may be outdated when it is written: the transaction runs
-- again.
-- +goose StatementBegin
CREATE FUNCTION none_overtaken(got bigint, want integer) RETURNS boolean LANGUAGE sql VOLATILE
RETURN CASE WHEN got = want THEN true ELSE miscounted(got, want, '40001') END;
-- +goose StatementEnd

--
-- The database itself, and its clock
--

CREATE TABLE meta (
    id           smallint    PRIMARY KEY CHECK (id = 1),
    store_id     uuid        NOT NULL,
    -- The installation's namespace, a part of every effect key.
    namespace    text        NOT NULL,
    created_at   timestamptz NOT NULL,
    -- What this database was when it was last open: the cluster and its timeline, the
    -- database in it, and this very table, which the load of a dump creates again.
    system_id    bigint      NOT NULL,
    timeline     bigint      NOT NULL,
    database_oid bigint      NOT NULL,
    relation_oid bigint      NOT NULL,
    -- When the base backup was made that the cluster was last started from, '' if from none;
    -- NULL until a role that may read it has read it.
    base_backup  text,
    -- Why; '': it is not quarantined.
    quarantined  text        NOT NULL DEFAULT '',
    -- When it was last released from a quarantine; NULL: never.
    released_at  timestamptz,
    -- Rises whenever the database turns out to be restored or copied.
    incarnation  bigint      NOT NULL DEFAULT 1 CHECK (incarnation >= 1),
    -- Added to transaction ids in positions, so that positions keep rising in a cluster whose
    -- transaction ids are behind those of the one before.
    xid_offset   bigint      NOT NULL DEFAULT 0,
    -- Events up to and including this position may have been dropped.
    events_from  bigint      NOT NULL DEFAULT 0,
    -- Rises with each step of the clock.
    clock_steps  bigint      NOT NULL DEFAULT 0,
    -- By how much all steps have moved what is stored, in microseconds.
    clock_moved  bigint      NOT NULL DEFAULT 0,
    -- Set with the first arm ever: from then on the namespace is fixed.
    armed_before boolean     NOT NULL DEFAULT false,
    -- The stops that had not ended at the last change of one. 0: nothing is stopped, and no
    -- claim or arm asks.
    stops        bigint      NOT NULL DEFAULT 0
);

-- The servers' belief in the database's clock (see store.Timeline). It is not in meta, which
-- every write reads, because a row that changes often collects dead versions.
CREATE TABLE clock (
    id      smallint    PRIMARY KEY CHECK (id = 1),
    -- The newest time that any server believed.
    at      timestamptz NOT NULL DEFAULT 'epoch'
);

INSERT INTO clock (id) VALUES (1);

-- The servers to which the clock is suspect, since any server has believed it last. A row
-- counts while its server lives (see clock_doubts.go).
CREATE TABLE clock_doubts (
    server text   PRIMARY KEY,
    -- Rises with each comparison of the server.
    beats  bigint NOT NULL
);

-- The servers that have started (store.Fleet): what is known of a process beside its worker's
-- name. A row says nothing about whether its server lives: its session's lock does (orphans.go).
-- The next start removes rows of servers that have ended and left no job under way.
CREATE TABLE servers (
    -- As in job_state.
    worker     text        PRIMARY KEY,
    version    text        NOT NULL,
    host       text        NOT NULL,
    pid        bigint      NOT NULL,
    started_at timestamptz NOT NULL,
    -- It is shutting down.
    draining   boolean     NOT NULL DEFAULT FALSE
);

--
-- Projects, connections and their credentials
--

CREATE TABLE projects (
    id           text        PRIMARY KEY CHECK (id <> ''),
    display_name text        NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now(),
    -- When the project was last erased, and by which actor.
    erased_at    timestamptz,
    erased_by    text        NOT NULL DEFAULT ''
);

INSERT INTO projects (id, display_name) VALUES ('default', 'Default');

CREATE TABLE connections (
    id                     uuid        PRIMARY KEY,
    project                text        NOT NULL,
    connector              text        NOT NULL,
    display_name           text        NOT NULL,
    labels                 jsonb       NOT NULL,
    settings               bytea       NOT NULL,
    -- job.Class: 1 KEYED, 2 HANDLE, 3 OBSERVABLE, 4 OPAQUE.
    class                  smallint    NOT NULL CHECK (class BETWEEN 1 AND 4),
    key_window             bigint      NOT NULL CHECK (key_window >= 0),
    account_identity       text        NOT NULL,
    max_in_flight          bigint      NOT NULL CHECK (max_in_flight >= 0),
    max_per_minute         bigint      NOT NULL CHECK (max_per_minute >= 0),
    -- See store.CoolDown. 31 days at most; 0: none.
    cool_down              bigint      NOT NULL CHECK (cool_down BETWEEN 0 AND 2678400000000),
    -- See job.RetryPolicy.Encode; '': it states nothing.
    retry                  text        NOT NULL DEFAULT '',
    paused_at              timestamptz,
    paused_reason          text        NOT NULL DEFAULT '',
    -- 0: it has none.
    credential_version     bigint      NOT NULL DEFAULT 0 CHECK (credential_version >= 0),
    credential_fingerprint text        NOT NULL DEFAULT '',
    credential_expires_at  timestamptz,
    -- The credential is renewed before its end, without a person.
    credential_renews      boolean     NOT NULL DEFAULT false,
    -- '': none was given.
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
CREATE INDEX connections_connector ON connections (project, connector, created_at, id);
CREATE INDEX connections_account ON connections (project, account_identity, created_at, id) WHERE account_identity <> '';
-- Connections that count, by project.
CREATE INDEX connections_live ON connections (project) WHERE deleted_at IS NULL;
-- For store.Vitals.
CREATE INDEX connections_paused ON connections (connector) WHERE paused_at IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX connections_by_connector ON connections (connector) WHERE deleted_at IS NULL;
CREATE INDEX connections_expiring ON connections (credential_expires_at)
WHERE credential_expires_at IS NOT NULL AND NOT credential_renews AND deleted_at IS NULL;

-- One row for each label of a connection, in the order of the list. The triggers below keep
-- it in step with connections.labels; nothing else writes it.
CREATE TABLE connection_labels (
    project       text        NOT NULL,
    name          text        NOT NULL,
    value         text        NOT NULL,
    created_at    timestamptz NOT NULL,
    connection_id uuid        NOT NULL,
    PRIMARY KEY (project, name, value, created_at, connection_id)
);

-- +goose StatementBegin
CREATE FUNCTION label_connection() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM connection_labels AS c USING jsonb_each_text(OLD.labels) AS l
        WHERE c.project = OLD.project AND c.name = l.key AND c.value = l.value
            AND c.created_at = OLD.created_at AND c.connection_id = OLD.id;
    END IF;
    INSERT INTO connection_labels (project, name, value, created_at, connection_id)
    SELECT NEW.project, l.key, l.value, NEW.created_at, NEW.id FROM jsonb_each_text(NEW.labels) AS l;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER connections_labeled AFTER INSERT ON connections FOR EACH ROW
    WHEN (NEW.labels <> '{}') EXECUTE FUNCTION label_connection();
CREATE TRIGGER connections_relabeled AFTER UPDATE OF labels ON connections FOR EACH ROW
    WHEN (NEW.labels <> OLD.labels) EXECUTE FUNCTION label_connection();

CREATE TABLE connection_credentials (
    connection_id uuid        NOT NULL REFERENCES connections (id),
    version       bigint      NOT NULL CHECK (version >= 1),
    -- The key that data is sealed with.
    key_id        text        NOT NULL,
    data          bytea       NOT NULL,
    fingerprint   text        NOT NULL,
    expires_at    timestamptz,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (connection_id, version)
);

-- Which keys are in use: every start reads it, and a rotation.
CREATE INDEX connection_credentials_key ON connection_credentials (key_id);

--
-- Claims and runnable rows

-- The claim lock of each connection, by which its bounds hold across servers. It is not the
-- row of connections, which every new job refers to.
CREATE TABLE connection_claims (
    connection_id uuid   PRIMARY KEY REFERENCES connections (id),
    -- The token bucket, in microseconds since 1970: when its oldest free token
    -- was made. See store.Bucket.
    bucket_at     bigint NOT NULL DEFAULT 0
);

-- One row for each connection and hold key that ever had a job, called a runnable row. Claim
-- walks the rows with a runnable_at that has passed, so a held row costs it nothing, however
-- many jobs wait in it.
CREATE TABLE connection_ready (
    connection_id      uuid        NOT NULL REFERENCES connections (id),
    hold_key           text        NOT NULL,
    -- No runnable job is due earlier; NULL: there is none.
    next_at            timestamptz,
    paused             boolean     NOT NULL DEFAULT false,
    auth_hold_at       timestamptz,
    auth_hold_reason   text        NOT NULL DEFAULT '',
    -- job.AuthCause: 0 no hold, 1 CREDENTIAL_REFUSED, 2 CREDENTIAL_EXPIRED, 3 LOGIN_ENDED, 4 RENEWAL_LOST,
    -- 5 PERMISSION_MISSING, 6 ACCOUNT_BARRED, 7 ACCOUNT_MISMATCH.
    auth_hold_cause    smallint    NOT NULL DEFAULT 0,
    rate_limited_until timestamptz NOT NULL DEFAULT 'epoch',
    rate_limit_reason  text        NOT NULL DEFAULT '',
    -- The connection has MaxInFlight jobs under way, until one of them ends.
    saturated          boolean     NOT NULL DEFAULT false,
    -- The connection's token bucket is empty until then.
    paced_until        timestamptz NOT NULL DEFAULT 'epoch',
    -- Claims leave the row alone until then: a stop covers it, or repeats go first (see
    -- store.Stops).
    stopped_until      timestamptz NOT NULL DEFAULT 'epoch',
    -- When the row was last served: rows that wait longer go first.
    served_at          timestamptz NOT NULL DEFAULT 'epoch',
    runnable_at        timestamptz GENERATED ALWAYS AS (
        CASE WHEN paused OR saturated OR auth_hold_at IS NOT NULL OR next_at IS NULL THEN NULL
        ELSE greatest(next_at, rate_limited_until, paced_until, stopped_until, served_at) END
    ) STORED,
    PRIMARY KEY (connection_id, hold_key),
    CONSTRAINT auth_hold_has_its_cause
        CHECK (auth_hold_cause BETWEEN 0 AND 31 AND (auth_hold_at IS NULL) = (auth_hold_cause = 0))
);

CREATE INDEX connection_ready_runnable ON connection_ready (runnable_at) WHERE runnable_at IS NOT NULL;
-- The end of a job checks whether any connection is set aside at all.
CREATE INDEX connection_ready_saturated ON connection_ready (connection_id) WHERE saturated;
-- The state of a connection depends on holds; most connections have none.
CREATE INDEX connection_ready_auth ON connection_ready (connection_id) WHERE auth_hold_at IS NOT NULL;
CREATE INDEX connection_ready_limited ON connection_ready (connection_id, rate_limited_until) WHERE rate_limited_until > 'epoch';
-- The end of a stop makes the rows due that claims have set aside.
CREATE INDEX connection_ready_stopped ON connection_ready (connection_id, hold_key) WHERE stopped_until > 'epoch';

-- A transaction that adds a runnable row has locked the connection (KeepForNewRows) and read
-- it. If the connection was paused, resumed or deleted in between, the transaction runs
-- again. A later change waits for the lock, and finds the row then.
-- +goose StatementBegin
CREATE FUNCTION ready_row_fits() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fits boolean;
BEGIN
    SELECT deleted_at IS NULL AND (paused_at IS NOT NULL) = NEW.paused INTO fits
    FROM connections WHERE id = NEW.connection_id FOR KEY SHARE;
    IF NOT fits THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
            MESSAGE = 'the connection was changed at the same time';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER connection_ready_insert AFTER INSERT ON connection_ready FOR EACH ROW EXECUTE FUNCTION ready_row_fits();

-- The last arm of each connection and schedule that has a cool-down (see store.CoolDown). A
-- row that exists only for its lock has no job, and the time 1970.
CREATE TABLE cool_downs (
    owner    uuid        PRIMARY KEY,
    job_id   uuid        NOT NULL,
    armed_at timestamptz NOT NULL
);

--
-- Jobs and their keys
--

-- The frozen request.
CREATE TABLE jobs (
    id              uuid        PRIMARY KEY,
    project         text        NOT NULL,
    -- No index bounds the text.
    idem_key        text        NOT NULL CHECK (idem_key <> '' AND octet_length(idem_key) <= 255),
    connection_id   uuid        NOT NULL,
    payload_kind    text        NOT NULL,
    -- See job.RetryPolicy.Encode; '': the request states nothing.
    retry           text        NOT NULL,
    attempt_timeout bigint      NOT NULL,
    -- That of the job's schedule, as it was when the job was made. 31 days at most; 0: none.
    cool_down       bigint      NOT NULL DEFAULT 0 CHECK (cool_down BETWEEN 0 AND 2678400000000),
    -- See job.AlreadyPresent. 30 days at most; 0: the content is not looked for.
    skip_if_present bigint      NOT NULL DEFAULT 0 CHECK (skip_if_present BETWEEN 0 AND 2592000000000),
    -- job.Delivery: 1 ONCE_OR_ASK, 2 AT_MOST_ONCE, 3 AT_LEAST_ONCE.
    delivery        smallint    NOT NULL CHECK (delivery BETWEEN 1 AND 3),
    -- The caller's effect key for the job's present round; '': it is derived.
    own_effect_key  text        NOT NULL DEFAULT '',
    labels          jsonb       NOT NULL CHECK (jsonb_typeof(labels) = 'object'),
    time_zone       text        NOT NULL,
    reply_to        uuid        REFERENCES jobs (id),
    schedule_id     uuid,
    -- The trace context that the job was submitted in (job.Spec.Trace); '': none.
    trace           text        NOT NULL DEFAULT '' CHECK (trace = '' OR octet_length(trace) BETWEEN 55 AND 568),
    fingerprint     bytea       NOT NULL,
    created_at      timestamptz NOT NULL,
    payload         bytea       NOT NULL
);

CREATE INDEX jobs_created ON jobs (project, created_at, id);
CREATE INDEX jobs_labels ON jobs USING gin (labels jsonb_path_ops) WHERE labels <> '{}';
CREATE INDEX jobs_schedule ON jobs (schedule_id, created_at) WHERE schedule_id IS NOT NULL;
-- A job's replies.
CREATE INDEX jobs_reply ON jobs (reply_to) WHERE reply_to IS NOT NULL;
-- Keys by prefix, byte for byte.
CREATE INDEX jobs_key ON jobs (project, idem_key COLLATE "C");

-- One key, one job. A row outlives its job: the key is bound by its digest, and its text is
-- removed with the job.
CREATE TABLE job_keys (
    -- See job.KeyDigest.
    digest     bytea       PRIMARY KEY,
    job_id     uuid        NOT NULL,
    -- Set when the job is removed; NULL before.
    kept_until timestamptz
);

-- Keys that outlive their jobs.
CREATE INDEX job_keys_kept ON job_keys (kept_until) WHERE kept_until IS NOT NULL;

-- Effect keys that callers gave. Each is used once at a receiver, whatever the project,
-- and never again.
CREATE TABLE effect_keys (
    -- See job.EffectKeyDigest.
    digest bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
    job_id uuid  NOT NULL
);

-- The recipients of a job's payload: e-mail addresses in lower case, ids of direct messages
-- unchanged (see store.NewJob). These are personal data: code that erases a payload erases
-- them. They are removed with their job's row, and a new payload replaces them.
CREATE TABLE job_recipients (
    job_id    uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    project   text NOT NULL,
    recipient text NOT NULL,
    PRIMARY KEY (job_id, recipient)
);

CREATE INDEX job_recipients_who ON job_recipients (project, recipient, job_id);

--
-- The state of jobs
--

-- The narrow, changing part of a job, and the parts of the request that each change needs.
-- Each change of state writes the row again and with it an entry in every index whose
-- condition the new row meets: so no index has what another one has, and CLAIMED and SENDING,
-- the states of work under way, are in two indexes of their own.
CREATE TABLE job_state (
    job_id          uuid        PRIMARY KEY,
    project         text        NOT NULL,
    connection_id   uuid        NOT NULL,
    schedule_id     uuid,
    hold_key        text        NOT NULL,
    -- job.State: 1 SCHEDULED, 2 CLAIMED, 3 SENDING, 4 ACCEPTED, 5 AMBIGUOUS, 6 RETRYING, 7 NEEDS_RESOLUTION,
    -- 8 SUCCEEDED, 9 FAILED, 10 CANCELED, 11 EXPIRED.
    state           smallint    NOT NULL,
    version         bigint      NOT NULL,
    -- The position of the newest event. A transaction has its id before it has all its locks,
    -- so a later writer can have a lower one: it must start again, or the log would have the
    -- job's events out of order.
    position        bigint      NOT NULL,
    -- The number of the newest attempt; 0: there was none.
    attempt         bigint      NOT NULL DEFAULT 0,
    round           bigint      NOT NULL DEFAULT 1,
    failures        bigint      NOT NULL DEFAULT 0,
    claims          bigint      NOT NULL DEFAULT 0,
    looks           bigint      NOT NULL DEFAULT 0,
    negatives       bigint      NOT NULL DEFAULT 0,
    misses          bigint      NOT NULL DEFAULT 0,
    schedule_time   timestamptz NOT NULL,
    -- No caller requested the time at which the window begins.
    unasked         boolean     NOT NULL,
    start_window    bigint      NOT NULL,
    -- The end of start_window, or of wait_window while the job waits; once the job has begun,
    -- of keep_trying.
    start_deadline  timestamptz NOT NULL,
    -- 0: the job has not begun.
    keep_trying     bigint      NOT NULL DEFAULT 0,
    -- When the job is due: the start, the lease's end, the fence, or the next look.
    next_at         timestamptz,
    claim_token     uuid,
    claimed_at      timestamptz,
    worker          text        NOT NULL DEFAULT '',
    -- job.Class, as in connections; frozen by the first arm.
    class           smallint    NOT NULL,
    -- The job whose success this one waits for, while it waits.
    waits_for       uuid,
    -- The state in which the job of waits_for ended without success. 0: it has not.
    predecessor_end smallint    NOT NULL DEFAULT 0,
    -- How long a reply waits for its predecessor, from its own time on. 0: as long as the
    -- program's default.
    wait_window     bigint      NOT NULL DEFAULT 0,
    cancel_asked_at timestamptz,
    blocked         text        NOT NULL DEFAULT '',
    -- job.FailureKind: 0 none, 1 AUTH, 2 PERMANENT, 3 RATE_LIMITED, 4 TRANSIENT, 5 AMBIGUOUS, 6 EGRESS_DENIED,
    -- 7 ATTEMPTS_EXHAUSTED, 8 WORKER_CRASH, 9 WINDOW_OVER, 10 PREDECESSOR_ENDED, 11 ALREADY_PRESENT.
    error_kind      smallint    NOT NULL DEFAULT 0,
    error_message   text        NOT NULL DEFAULT '',
    error_status    bigint      NOT NULL DEFAULT 0,
    error_at        timestamptz,
    -- The newest row of resolutions.
    resolution_id   bigint,
    -- The effect of a job that SUCCEEDED, where the platform's own answer is the proof and
    -- named no object: it has no other data, and no row in effects.
    effect_attempt  bigint,
    effect_round    bigint,
    effect_at       timestamptz,
    updated_at      timestamptz NOT NULL,
    -- When the state last changed.
    state_since     timestamptz NOT NULL,
    ended_at        timestamptz,
    -- The job's own events (see store/logpage); of many, the newest ones.
    history         bytea       NOT NULL,

    -- The newest attempt, number attempt; NULL: there is none. Earlier ones are in attempts,
    -- and every_attempt has all of them.
    armed_round        bigint,
    arm_token          uuid,
    armed_by           text,
    attempt_claimed_at timestamptz,
    armed_at           timestamptz,
    send_deadline      timestamptz,
    answer_deadline    timestamptz,
    -- After this the attempt can no longer act.
    fence_at           timestamptz,
    -- The effect key of its round.
    effect_key         text,
    request_digest     bytea,
    credential_version bigint,
    account_identity   text,
    watermark          text,
    handle             text,
    -- The span of the request to the target (job.Span): 16 bytes of trace and 8 of the
    -- span; NULL: none.
    span               bytea,
    -- The request as it was armed; NULL once the job has SUCCEEDED, because no attempt
    -- follows.
    frozen             bytea,
    -- job.Result: 0 no outcome yet, 1 SUCCEEDED, 2 REJECTED, 3 NOT_SENT, 4 UNKNOWN, 5 ACCEPTED, 6 SUPERSEDED,
    -- 7 ABSENT.
    result             smallint,
    -- job.FailureKind, as error_kind.
    failure_kind       smallint,
    message            text,
    http_status        bigint,
    bytes_written      bigint,
    -- The target itself ended the exchange (job.Settled.PeerEnded).
    peer_ended         boolean     NOT NULL DEFAULT false,
    -- What the connection keeps of the target's answer (job.Answer); NULL: nothing.
    answer             bytea,
    attempt_ended_at   timestamptz,
    -- When the first attempt of armed_round was armed, and when the job's first one was. Only
    -- a step back of the clock changes first_armed_at, to the time after it.
    round_armed_at     timestamptz,
    first_armed_at     timestamptz,

    -- One condition: every statement that writes would read and compile each separate one.
    CONSTRAINT job_state_row CHECK (
        -- Which states there are is for the triggers; the check has room for others, so that
        -- one is added without reading the table. An event has four bits for a state.
        state BETWEEN 1 AND 15 AND version >= 1 AND round >= 1
        AND attempt >= 0 AND failures >= 0 AND claims >= 0 AND looks >= 0 AND negatives >= 0 AND misses >= 0
        AND start_window >= 0 AND keep_trying >= 0 AND class BETWEEN 1 AND 4 AND error_kind BETWEEN 0 AND 31
        -- NEEDS_RESOLUTION, the terminal states and those above have nothing due; all others do.
        AND (next_at IS NULL) = (state >= 7)
        AND (claim_token IS NULL OR state IN (2, 4, 5))
        AND (state <> 2 OR claim_token IS NOT NULL)
        AND (ended_at IS NULL) = (state NOT IN (8, 9, 10, 11))
        AND (effect_at IS NULL OR state = 8)
        -- An attempt has all its columns or none; its request is removed with a success.
        AND num_nulls(
            armed_round, arm_token, armed_by, armed_at, send_deadline, answer_deadline, fence_at, effect_key,
            request_digest, credential_version, account_identity, watermark, handle, result, failure_kind,
            message, http_status, bytes_written, round_armed_at, first_armed_at
        ) = CASE attempt WHEN 0 THEN 20 ELSE 0 END
        AND (attempt = 0 OR state = 8 OR frozen IS NOT NULL)
        AND result BETWEEN 0 AND 7 AND failure_kind BETWEEN 0 AND 31 AND octet_length(span) = 24
    )
);

-- No plan depends on these columns. Sampling them took most of the time of an ANALYZE, which
-- a growing table has often (store/postgres/grown.go).
ALTER TABLE job_state
    ALTER position SET STATISTICS 0,
    ALTER attempt SET STATISTICS 0,
    ALTER round SET STATISTICS 0,
    ALTER failures SET STATISTICS 0,
    ALTER claims SET STATISTICS 0,
    ALTER looks SET STATISTICS 0,
    ALTER negatives SET STATISTICS 0,
    ALTER misses SET STATISTICS 0,
    ALTER start_window SET STATISTICS 0,
    ALTER keep_trying SET STATISTICS 0,
    ALTER claim_token SET STATISTICS 0,
    ALTER wait_window SET STATISTICS 0,
    ALTER cancel_asked_at SET STATISTICS 0,
    ALTER blocked SET STATISTICS 0,
    ALTER error_message SET STATISTICS 0,
    ALTER error_status SET STATISTICS 0,
    ALTER error_at SET STATISTICS 0,
    ALTER resolution_id SET STATISTICS 0,
    ALTER effect_attempt SET STATISTICS 0,
    ALTER effect_round SET STATISTICS 0,
    ALTER effect_at SET STATISTICS 0,
    ALTER history SET STATISTICS 0,
    ALTER armed_round SET STATISTICS 0,
    ALTER armed_by SET STATISTICS 0,
    ALTER attempt_claimed_at SET STATISTICS 0,
    ALTER armed_at SET STATISTICS 0,
    ALTER send_deadline SET STATISTICS 0,
    ALTER answer_deadline SET STATISTICS 0,
    ALTER fence_at SET STATISTICS 0,
    ALTER effect_key SET STATISTICS 0,
    ALTER request_digest SET STATISTICS 0,
    ALTER credential_version SET STATISTICS 0,
    ALTER account_identity SET STATISTICS 0,
    ALTER watermark SET STATISTICS 0,
    ALTER handle SET STATISTICS 0,
    ALTER span SET STATISTICS 0,
    ALTER frozen SET STATISTICS 0,
    ALTER result SET STATISTICS 0,
    ALTER failure_kind SET STATISTICS 0,
    ALTER message SET STATISTICS 0,
    ALTER http_status SET STATISTICS 0,
    ALTER bytes_written SET STATISTICS 0,
    ALTER peer_ended SET STATISTICS 0,
    ALTER answer SET STATISTICS 0,
    ALTER attempt_ended_at SET STATISTICS 0,
    ALTER round_armed_at SET STATISTICS 0;

-- What a claim reads: SCHEDULED and RETRYING that wait for no other job.
CREATE INDEX job_state_runnable ON job_state (connection_id, hold_key, next_at)
    WHERE state IN (1, 6) AND waits_for IS NULL;
CREATE INDEX job_state_waiting ON job_state (waits_for) WHERE waits_for IS NOT NULL;
-- Replies whose predecessor ended without success.
CREATE INDEX job_state_left ON job_state (updated_at) WHERE predecessor_end > 0 AND state IN (1, 6);
-- The windows of jobs that have not begun. Every deadline is earlier than infinity, and only
-- a query with that condition may use the index: without it, a planner that knew the tables
-- as empty chose the index for what a connection has due, and read all pending jobs.
CREATE INDEX job_state_deadline ON job_state (start_deadline) WHERE state IN (1, 6) AND start_deadline < 'infinity';
-- CLAIMED and SENDING: the end of the lease, or of the window if that is earlier,
-- and the fence.
CREATE INDEX job_state_fence ON job_state ((CASE WHEN state = 2 THEN least(next_at, start_deadline) ELSE next_at END))
    WHERE state IN (2, 3);
-- A connection's jobs under way. No two of their intents have one token.
CREATE UNIQUE INDEX job_state_in_flight ON job_state (connection_id, arm_token) WHERE state IN (2, 3);
-- Looks and polls: ACCEPTED and AMBIGUOUS.
CREATE INDEX job_state_look ON job_state (next_at) WHERE state IN (4, 5);
-- Jobs that a stop has put off one by one (job.Stopped).
CREATE INDEX job_state_stopped ON job_state (next_at) WHERE blocked = 'waits for the end of a pause' AND state IN (1, 5, 6);
-- Unknown outcomes, for store.Vitals; there are few.
CREATE INDEX job_state_unknown ON job_state (state, updated_at) WHERE state IN (5, 7);
-- Lists, state by state, and counts; jobs under way are few.
CREATE INDEX job_state_by_state ON job_state (project, state, schedule_time, job_id)
    WHERE state IN (1, 4, 5, 6, 7, 8, 9, 10, 11);
CREATE INDEX job_state_ended ON job_state (project, ended_at, state) WHERE ended_at IS NOT NULL;
-- FAILED and EXPIRED, the newest ends first, however many jobs SUCCEEDED meanwhile.
CREATE INDEX job_state_failed ON job_state (project, state, ended_at, job_id) WHERE state IN (9, 11);
-- Most jobs have no error.
CREATE INDEX job_state_error ON job_state (project, error_kind) WHERE error_kind > 0;
-- The first starts of jobs whose looks may find objects of others: HANDLE and OBSERVABLE.
CREATE INDEX job_state_first_start ON job_state (first_armed_at) WHERE class IN (2, 3) AND first_armed_at IS NOT NULL;
-- Jobs of schedules that have not ended, separately for known and unknown outcomes
-- (job.State.Unresolved). So the newest of either kind is found, however many there are.
CREATE INDEX job_state_under_way ON job_state (schedule_id, job_id)
    WHERE schedule_id IS NOT NULL AND ended_at IS NULL AND state NOT IN (5, 7);
CREATE INDEX job_state_unresolved ON job_state (schedule_id, job_id)
    WHERE schedule_id IS NOT NULL AND ended_at IS NULL AND state IN (5, 7);

-- The columns that are read of a job: all but the details of its newest attempt and of its
-- result.
CREATE VIEW job_head AS
SELECT
    job_id, project, connection_id, schedule_id, hold_key, state, version, position, attempt, round, failures, claims,
    looks, negatives, misses, schedule_time, unasked, start_window, start_deadline, keep_trying, next_at, claim_token, claimed_at,
    worker,
    class, waits_for, predecessor_end, wait_window, cancel_asked_at, blocked, error_kind, error_message, error_status,
    error_at, coalesce(resolution_id, 0)::bigint AS resolution_id, coalesce(effect_attempt, 0)::bigint AS effect_attempt,
    coalesce(effect_round, 0)::bigint AS effect_round, effect_at, updated_at, ended_at,
    coalesce(armed_round, 0)::bigint AS armed_round, armed_at, fence_at, coalesce(effect_key, '')::text AS effect_key,
    request_digest, coalesce(handle, '')::text AS handle, coalesce(result, 0)::smallint AS result, peer_ended, round_armed_at
FROM job_state;

-- A history with one more event. A long history is not extended (logpage.MaxHistory): the
-- event begins a new one, and job_state_keep keeps the old one.
-- +goose StatementBegin
CREATE FUNCTION with_event(history bytea, event bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN octet_length(history) > 2000 THEN '\x01'::bytea ELSE history END || event;
-- +goose StatementEnd


-- Earlier parts of jobs' histories, each by the sequence of its last event.
CREATE TABLE job_history (
    job_id        uuid   NOT NULL,
    last_sequence bigint NOT NULL,
    body          bytea  NOT NULL,
    PRIMARY KEY (job_id, last_sequence)
);

-- +goose StatementBegin
CREATE FUNCTION keep_past() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(NEW.history) < octet_length(OLD.history) THEN
        INSERT INTO job_history (job_id, last_sequence, body) VALUES (OLD.job_id, OLD.version, OLD.history);
    END IF;
    IF NEW.attempt <> OLD.attempt THEN
        -- At most one live intent: an attempt follows attempts that have an outcome, and none
        -- of them is open under another key.
        IF OLD.result = 0 OR OLD.result = 4 AND OLD.effect_key <> NEW.effect_key OR EXISTS (
            SELECT 1 FROM attempts AS a
            WHERE a.job_id = OLD.job_id AND (a.result = 0 OR a.result = 4 AND a.effect_key <> NEW.effect_key)
        ) THEN
            RAISE EXCEPTION USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME,
                MESSAGE = 'the attempt cannot follow those before it: one is live, or open under another key';
        END IF;
        IF OLD.arm_token = NEW.arm_token OR EXISTS (
            SELECT 1 FROM attempts AS a WHERE a.job_id = OLD.job_id AND a.arm_token = NEW.arm_token
        ) THEN
            RAISE EXCEPTION USING ERRCODE = 'unique_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME,
                MESSAGE = 'an attempt has a token of its own';
        END IF;
        INSERT INTO attempts (
            job_id, number, round, arm_token, worker, claimed_at, armed_at, send_deadline, answer_deadline, fence_at,
            effect_key, request_digest, credential_version, account_identity, watermark, handle, span, result, kind,
            message, http_status, bytes_written, peer_ended, ended_at, answer, frozen
        ) VALUES (
            OLD.job_id, OLD.attempt, OLD.armed_round, OLD.arm_token, OLD.armed_by, OLD.attempt_claimed_at, OLD.armed_at,
            OLD.send_deadline, OLD.answer_deadline, OLD.fence_at, OLD.effect_key, OLD.request_digest,
            OLD.credential_version, OLD.account_identity, OLD.watermark, OLD.handle, OLD.span, OLD.result,
            OLD.failure_kind, OLD.message, OLD.http_status, OLD.bytes_written, OLD.peer_ended, OLD.attempt_ended_at,
            OLD.answer, OLD.frozen
        );
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- For every program that writes, it keeps what a row can no longer hold: events, and an
-- attempt that another one follows.
CREATE TRIGGER job_state_keep BEFORE UPDATE ON job_state FOR EACH ROW
WHEN (octet_length(NEW.history) < octet_length(OLD.history) OR NEW.attempt <> OLD.attempt AND OLD.attempt > 0)
EXECUTE FUNCTION keep_past();

-- A copy of job.Transitions, which a test compares with it: bit n of element s is set if a
-- job may go from state s to state n; s is 0 for a new job. It is short because every
-- statement that writes states compiles it.
-- +goose StatementBegin
CREATE FUNCTION legal_transition(from_state smallint, to_state smallint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(('[0:11]={2,3206,4062,1912,2000,2040,4052,2000,256,832,1344,2368}'::integer[])[from_state] >> to_state & 1 = 1, false);
-- +goose StatementEnd

CREATE TRIGGER job_state_insert BEFORE INSERT ON job_state FOR EACH ROW
WHEN (NEW.version <> 1 OR NEW.attempt <> 0 OR NOT legal_transition(0::smallint, NEW.state))
EXECUTE FUNCTION refuse('a job starts as SCHEDULED, version 1, attempt 0');

-- One trigger, because every statement compiles its condition too.
CREATE TRIGGER job_state_update BEFORE UPDATE ON job_state FOR EACH ROW
WHEN (
    CASE WHEN NEW.version = OLD.version + 2 THEN
        -- Two steps in one write, those of job.ClaimAndArm: a claim that arms. The lease is
        -- never visible to another worker, and each step has its event.
        OLD.state = 2 OR NOT legal_transition(OLD.state, 2::smallint) OR NEW.state <> 3 OR OLD.waits_for IS NOT NULL
        OR NEW.claims <> 0 OR NEW.claimed_at IS DISTINCT FROM NEW.updated_at
        OR NEW.position < OLD.position + 2
    ELSE
        NOT legal_transition(OLD.state, NEW.state)
        -- A change of state raises the version by one.
        OR NEW.version <> OLD.version + 1 AND (OLD.state <> NEW.state OR NEW.version <> OLD.version)
    END
    -- The events of a job are in the order of their positions.
    OR (NEW.version <> OLD.version) <> (NEW.position > OLD.position)
    -- An attempt rises by one, and only at an arm; a SENDING job was armed.
    OR NEW.attempt <> OLD.attempt AND (NEW.attempt <> OLD.attempt + 1 OR NEW.state <> 3 OR OLD.state = 3)
    OR NEW.state = 3 AND OLD.state <> 3 AND NEW.attempt <> OLD.attempt + 1
    -- A fence is never moved earlier, except by a step of the clock. The end of a quarantine
    -- raises it, which is no change of the job.
    OR NEW.state = 3 AND OLD.state = 3 AND (
        NEW.next_at < OLD.next_at AND current_setting('fireonce.stepping', true) IS DISTINCT FROM 'on'
        OR NEW.next_at > OLD.next_at AND NEW.version <> OLD.version
    )
    OR CASE WHEN NEW.attempt <> OLD.attempt THEN
        -- An attempt begins without an outcome.
        NEW.result <> 0
    ELSE
        -- A confirmed attempt stays confirmed, its fence is never moved earlier except by a
        -- step of the clock, and a known result is not lost.
        OLD.result = 1 AND NEW.result <> 1
        OR NEW.fence_at < OLD.fence_at AND current_setting('fireonce.stepping', true) IS DISTINCT FROM 'on'
        OR OLD.result <> NEW.result AND (NEW.result = 0
            OR NEW.result = 4 AND OLD.result IN (2, 3, 7) AND NEW.handle = '')
        OR NEW.arm_token <> OLD.arm_token OR NEW.effect_key <> OLD.effect_key OR NEW.request_digest <> OLD.request_digest
        OR NEW.armed_round <> OLD.armed_round
    END
    -- A job keeps its id, its project and its connection.
    OR NEW.job_id <> OLD.job_id OR NEW.connection_id <> OLD.connection_id OR NEW.project <> OLD.project
)
EXECUTE FUNCTION refuse('the protocol has no such change of a job');

CREATE TRIGGER job_state_delete BEFORE DELETE ON job_state FOR EACH ROW
WHEN (OLD.state NOT IN (8, 9, 10, 11))
EXECUTE FUNCTION refuse('a live job is never deleted');

--
-- Attempts
--

-- Earlier attempts: of a job with attempt n those from 1 to n - 1. The database itself writes
-- them when another one follows (job_state_keep).
CREATE TABLE attempts (
    job_id             uuid        NOT NULL,
    number             bigint      NOT NULL,
    round              bigint      NOT NULL,
    arm_token          uuid        NOT NULL,
    worker             text        NOT NULL,
    claimed_at         timestamptz,
    armed_at           timestamptz NOT NULL,
    send_deadline      timestamptz NOT NULL,
    answer_deadline    timestamptz NOT NULL,
    fence_at           timestamptz NOT NULL,
    effect_key         text        NOT NULL,
    request_digest     bytea       NOT NULL,
    credential_version bigint      NOT NULL,
    account_identity   text        NOT NULL,
    watermark          text        NOT NULL,
    handle             text        NOT NULL,
    span               bytea,
    result             smallint    NOT NULL,
    kind               smallint    NOT NULL,
    message            text        NOT NULL,
    http_status        bigint      NOT NULL,
    bytes_written      bigint      NOT NULL,
    peer_ended         boolean     NOT NULL,
    ended_at           timestamptz,
    answer             bytea,
    frozen             bytea       NOT NULL,
    PRIMARY KEY (job_id, number),
    CONSTRAINT attempts_row CHECK (number >= 1 AND round >= 1 AND result BETWEEN 1 AND 7 AND kind BETWEEN 0 AND 31)
);

CREATE VIEW every_attempt AS
SELECT
    a.job_id, a.number, a.round, a.arm_token, a.worker, a.claimed_at, a.armed_at, a.send_deadline, a.answer_deadline,
    a.fence_at, a.effect_key, a.request_digest, a.credential_version, a.account_identity, a.watermark, a.handle, a.span,
    a.result, a.kind, a.message, a.http_status, a.bytes_written, a.peer_ended, a.ended_at, a.answer, a.frozen
FROM attempts AS a
UNION ALL
SELECT
    s.job_id, s.attempt, s.armed_round, s.arm_token, s.armed_by, s.attempt_claimed_at, s.armed_at, s.send_deadline,
    s.answer_deadline, s.fence_at, s.effect_key, s.request_digest, s.credential_version, s.account_identity, s.watermark,
    s.handle, s.span, s.result, s.failure_kind, s.message, s.http_status, s.bytes_written, s.peer_ended,
    s.attempt_ended_at, s.answer, s.frozen
FROM job_state AS s WHERE s.attempt > 0;

-- A confirmed attempt stays confirmed, a fence is never moved earlier except by a step of the
-- clock, and a known result is not lost.
CREATE TRIGGER attempts_update BEFORE UPDATE ON attempts FOR EACH ROW
WHEN (
    OLD.result = 1 AND NEW.result <> 1
    OR NEW.fence_at < OLD.fence_at AND current_setting('fireonce.stepping', true) IS DISTINCT FROM 'on'
    OR OLD.result <> NEW.result AND (NEW.result = 0
        OR NEW.result = 4 AND OLD.result IN (2, 3, 7) AND NEW.handle = '')
)
EXECUTE FUNCTION refuse('what is known of an attempt is not forgotten');

-- For targets that can only be looked at: at most one open intent with the same content in an
-- account.
CREATE TABLE open_intents (
    account     text   NOT NULL,
    fingerprint bytea  NOT NULL,
    job_id      uuid   NOT NULL UNIQUE REFERENCES jobs (id),
    attempt     bigint NOT NULL,
    PRIMARY KEY (account, fingerprint)
);

-- How many intents of such a content there have been, by rules.ContentBucket. Contents of one
-- bucket count together, so that there are never more than 65,536 rows.
CREATE TABLE content_arms (
    bucket bigint PRIMARY KEY,
    arms   bigint NOT NULL
);

--
-- Effects, observations and resolutions
--

-- The proof that a job's effect exists. One created object settles at most one job; a row
-- whose object turned out to be another job's no longer owns it.
CREATE TABLE effects (
    job_id       uuid        PRIMARY KEY,
    account      text        NOT NULL,
    namespace    text        NOT NULL,
    -- '': the platform named none.
    external_id  text        NOT NULL,
    external_url text        NOT NULL,
    owns_id      boolean     NOT NULL DEFAULT true,
    attempt      bigint      NOT NULL,
    round        bigint      NOT NULL,
    -- job.Proof: 1 RESPONSE, 2 OBSERVED, 3 KEY_REPLAY, 4 OPERATOR, 5 ASSUMED.
    proof        smallint    NOT NULL CHECK (proof BETWEEN 1 AND 5),
    at           timestamptz NOT NULL,
    -- Another job that names the same object.
    shared_with  uuid,
    -- Whether the job has its event of cause EFFECT_SHARED.
    told         boolean     NOT NULL DEFAULT false,
    -- The row outlives its job where a look of another job may still find the object.
    job_removed  boolean     NOT NULL DEFAULT false
);

CREATE UNIQUE INDEX effects_object ON effects (account, namespace, external_id)
    WHERE external_id <> '' AND owns_id;
-- Most effects have no external id.
CREATE INDEX effects_external ON effects (external_id) WHERE external_id <> '';
-- Effects that were confirmed by a repeat under the same key or by a look.
CREATE INDEX effects_recovered ON effects (at) WHERE proof IN (2, 3);
CREATE INDEX effects_removed ON effects (at) WHERE job_removed;
-- Effects without a proof: by a ruling or a policy.
CREATE INDEX effects_unproven ON effects (at) WHERE proof IN (4, 5);

CREATE TABLE observations (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id       uuid        NOT NULL REFERENCES jobs (id),
    attempt      bigint      NOT NULL,
    -- job.Verdict: 1 PRESENT, 2 ABSENT, 3 INCONCLUSIVE, 4 CANDIDATES, 5 HANDLE.
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
    -- job.Ruling: 1 SENT, 2 NOT_SENT, 3 RESEND, 4 CANCEL.
    ruling smallint    NOT NULL CHECK (ruling BETWEEN 1 AND 4),
    actor  text        NOT NULL,
    note   text        NOT NULL,
    at     timestamptz NOT NULL
);

CREATE INDEX resolutions_job ON resolutions (job_id, id);

--
-- The references of the tables that every job writes
--

-- Each is checked once for a whole statement: a foreign key checks and locks row by row.
-- Between the check and the commit no referenced row disappears, because of the writers'
-- locks: states and all that belongs to them are written under the lock of the state's row,
-- which a deletion takes too; connections are never deleted.

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
        OR EXISTS (SELECT 1 FROM effects AS e WHERE e.job_id = d.id AND NOT e.job_removed))
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
CREATE TRIGGER effects_references AFTER INSERT ON effects REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION check_has_state();
CREATE TRIGGER jobs_references AFTER DELETE ON jobs REFERENCING OLD TABLE AS deleted
FOR EACH STATEMENT EXECUTE FUNCTION check_deleted();

--
-- The event log
--

-- The log: a page for each transaction and project (see store/logpage), and further pages if
-- one would have too many events. A position is the writing transaction's id times 2^20, plus
-- the event's number in that transaction: a reader that stops before the oldest transaction
-- in progress has seen everything before it, for good. The positions of one transaction's
-- pages may interleave, so a reader of all projects reads whole transactions.
CREATE TABLE event_pages (
    -- The positions of its last event and of its first.
    position bigint      PRIMARY KEY,
    first    bigint      NOT NULL,
    project  text        NOT NULL,
    -- The transaction's time, which is that of each event.
    at       timestamptz NOT NULL,
    events   bigint      NOT NULL,
    -- The first attempts that were armed; NULL: none.
    starts   bytea,
    -- The body includes the cause of each event, as a byte.
    -- job.Cause: 1 SUBMITTED, 2 CLAIMED, 3 INTENT_STORED, 4 ANSWERED, 5 NOT_STARTED, 6 LEASE_EXPIRED, 7 ANSWER_OVERDUE,
    -- 8 WINDOW_OVER, 9 LOOKED, 10 POLLED, 11 POLICY, 12 LATE_EVIDENCE, 13 CANCEL_REQUESTED, 14 RESOLVED,
    -- 15 RETRY_REQUESTED, 16 RESCHEDULED, 17 RUN_NOW, 18 UPDATED, 19 DUPLICATE_EFFECT_SEEN, 20 RESTORED,
    -- 21 EFFECT_SHARED, 22 PREDECESSOR_ENDED, 23 SENDER_LOST, 24 ALREADY_PRESENT.
    body     bytea       NOT NULL,
    CONSTRAINT event_pages_row CHECK (first <= position AND events >= 1)
)
-- A page is read whole, and is not compressed: it stays in its row if it fits.
WITH (toast_tuple_target = 8160);

ALTER TABLE event_pages ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE INDEX event_pages_project ON event_pages (project, position) INCLUDE (events);
CREATE INDEX event_pages_starts ON event_pages (project, at) WHERE starts IS NOT NULL;

-- The texts of people and targets in events: rows only for events with texts. A row is
-- removed when the log no longer returns its event and its job is removed, whichever comes
-- last.
CREATE TABLE event_texts (
    job_id   uuid   NOT NULL,
    sequence bigint NOT NULL,
    position bigint NOT NULL,
    reason   text   NOT NULL,
    detail   text   NOT NULL,
    PRIMARY KEY (job_id, sequence)
);

CREATE INDEX event_texts_position ON event_texts (position);

-- All events up to and including this position are visible, and none will be added there.
-- Read it in the same statement as the events.
-- +goose StatementBegin
CREATE FUNCTION event_horizon() RETURNS bigint
LANGUAGE sql STABLE
RETURN ((pg_snapshot_xmin(pg_current_snapshot())::text::bigint + (SELECT m.xid_offset FROM meta AS m WHERE m.id = 1)) << 20) - 1;
-- +goose StatementEnd

--
-- Schedules, their firings and their queues
--

CREATE TABLE schedules (
    id                   uuid        PRIMARY KEY,
    project              text        NOT NULL CHECK (project <> ''),
    idem_key             text        NOT NULL CHECK (idem_key <> ''),
    -- See job.KeyDigest.
    key_digest           bytea       NOT NULL CHECK (octet_length(key_digest) = 32),
    fingerprint          bytea       NOT NULL,
    -- version rises with changes by callers and of the state, revision with every write.
    version              bigint      NOT NULL,
    revision             bigint      NOT NULL,
    generation           bigint      NOT NULL,
    spec                 bytea       NOT NULL,
    template             bytea       NOT NULL,
    policies             bytea       NOT NULL,
    connection_id        uuid        NOT NULL,
    display_name         text        NOT NULL,
    labels               jsonb       NOT NULL CHECK (jsonb_typeof(labels) = 'object'),
    -- Its firings take their content from its items.
    queued               boolean     NOT NULL,
    pause_after_failures bigint      NOT NULL,
    -- store.ScheduleState: 1 ACTIVE, 2 PAUSED, 3 ENDED, 4 DELETED.
    state                smallint    NOT NULL,
    -- store.PauseCause: 0 not paused, 1 by a person, 2 by failures, 3 by an auth hold, 4 by a refusal.
    pause_cause          smallint    NOT NULL,
    note                 text        NOT NULL,
    paused_at            timestamptz,
    cursor_at            text        NOT NULL,
    -- Since when a decision is due, or when the next one will be; NULL: never.
    next_at              timestamptz,
    -- Until when the next decision waits because the last one was refused; NULL: it does not.
    postponed_until      timestamptz,
    -- Decisions in a row that were refused.
    refused_decisions    bigint      NOT NULL,
    -- The catch-up that goes on (store.CatchUp), as JSON; empty: none does.
    catch_up             text        NOT NULL,
    -- The firing that waits, as JSON; empty: none does.
    buffered             text        NOT NULL,
    -- Names, as a JSON list; empty: none.
    skips                text        NOT NULL,
    -- Firings that made a job.
    run                  bigint      NOT NULL,
    -- The newest local date on which it made jobs, and how many.
    day                  text        NOT NULL,
    day_count            bigint      NOT NULL,
    -- Firings by outcome (store.ScheduleCounts).
    fired                bigint      NOT NULL,
    skipped_by_overlap   bigint      NOT NULL,
    skipped_by_person    bigint      NOT NULL,
    skipped_by_limit     bigint      NOT NULL,
    no_content           bigint      NOT NULL,
    missed               bigint      NOT NULL,
    coalesced            bigint      NOT NULL,
    refused              bigint      NOT NULL,
    -- Firings that may have taken place in a lost state of the database.
    held                 bigint      NOT NULL,
    -- Items that were refused since one became a job, or a caller changed the schedule.
    refused_in_row       bigint      NOT NULL,
    -- The number of its newest firing.
    last_firing          bigint      NOT NULL,
    -- When the database was released from a quarantine; NULL: no firing is open. See
    -- store.Schedule.HeldUntil.
    held_until           timestamptz,
    -- Since when the ledger has all its firings.
    ledger_begin         timestamptz NOT NULL,
    created_at           timestamptz NOT NULL,
    updated_at           timestamptz NOT NULL,
    deleted_at           timestamptz,
    created_by           text        NOT NULL,
    updated_by           text        NOT NULL,
    CONSTRAINT schedules_row CHECK (
        state BETWEEN 1 AND 4 AND version >= 1 AND revision >= version AND generation >= 1 AND pause_after_failures >= 0
        AND run >= 0 AND fired >= 0 AND skipped_by_overlap >= 0 AND skipped_by_person >= 0 AND skipped_by_limit >= 0
        AND no_content >= 0 AND missed >= 0 AND coalesced >= 0 AND refused >= 0 AND held >= 0 AND refused_in_row >= 0
        AND last_firing >= 0
        AND day_count >= 0 AND (day <> '' OR day_count = 0) AND octet_length(day) <= 10
        AND pause_cause BETWEEN 0 AND 4 AND (pause_cause > 0) = (state = 2) AND (paused_at IS NULL) = (state <> 2)
        AND (next_at IS NULL OR state = 1) AND (buffered = '' OR state = 1) AND (catch_up = '' OR state = 1)
        AND (postponed_until IS NULL OR next_at IS NOT NULL) AND refused_decisions >= 0
        AND (deleted_at IS NULL) = (state <> 4) AND (state <> 4 OR template = '' AND note = '')
        AND octet_length(cursor_at) <= 4096
    )
);

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

CREATE TRIGGER schedules_insert BEFORE INSERT ON schedules FOR EACH ROW
WHEN (NEW.state NOT IN (1, 2) OR NEW.version <> 1 OR NEW.revision <> 1 OR NEW.generation <> 1 OR NEW.run <> 0)
EXECUTE FUNCTION refuse('a schedule starts as ACTIVE or PAUSED, version 1');

-- Legal moves are those of store.ScheduleState.Next.
CREATE TRIGGER schedules_update BEFORE UPDATE ON schedules FOR EACH ROW
WHEN (
    OLD.state = 4
        AND (NEW.revision <> OLD.revision OR NEW.state <> 4)
    OR OLD.state = 3 AND NEW.state = 2
    OR NEW.state <> OLD.state AND NEW.version <> OLD.version + 1
    OR NEW.version NOT IN (OLD.version, OLD.version + 1)
    OR NEW.revision NOT IN (OLD.revision, OLD.revision + 1)
    OR NEW.revision = OLD.revision AND (
        NEW.version <> OLD.version OR NEW.cursor_at <> OLD.cursor_at OR NEW.buffered <> OLD.buffered OR NEW.run <> OLD.run
    )
    OR NEW.generation < OLD.generation OR NEW.run < OLD.run OR NEW.last_firing < OLD.last_firing
    OR NEW.id <> OLD.id OR NEW.project <> OLD.project OR NEW.idem_key <> OLD.idem_key OR NEW.key_digest <> OLD.key_digest
    OR NEW.fingerprint <> OLD.fingerprint OR NEW.created_at <> OLD.created_at
)
EXECUTE FUNCTION refuse('a schedule has no such change');

CREATE TRIGGER schedules_day BEFORE UPDATE ON schedules FOR EACH ROW
WHEN (NEW.day COLLATE "C" < OLD.day COLLATE "C" OR NEW.day = OLD.day AND NEW.day_count < OLD.day_count)
EXECUTE FUNCTION refuse('a schedule forgets no job of its day');

-- Outcomes of firings. A row is written once and not changed.
CREATE TABLE firings (
    schedule_id  uuid        NOT NULL REFERENCES schedules (id),
    name         text        NOT NULL CHECK (name <> '' AND octet_length(name) <= 200),
    -- Rises with the schedule's firings, in the order of their decisions.
    number       bigint      NOT NULL CHECK (number >= 1),
    nominal_at   timestamptz NOT NULL,
    local_time   text        NOT NULL,
    -- store.TimeMark: 0 an ordinary time, 1 SHIFTED, 2 FIRST_OF_TWO, 3 REPEATED.
    mark         smallint    NOT NULL CHECK (mark BETWEEN 0 AND 3),
    -- store.FiringOrigin: 1 by time, 2 by catch-up, 3 by trigger, 4 by backfill.
    origin       smallint    NOT NULL CHECK (origin BETWEEN 1 AND 4),
    -- store.FiringOutcome: 1 FIRED, 3 SKIPPED_BY_OVERLAP, 4 SKIPPED_BY_PERSON, 5 MISSED, 6 COALESCED, 7 REFUSED,
    -- 8 HELD, 9 NO_CONTENT, 10 SKIPPED_BY_LIMIT. 2 BUFFERED is in schedules.buffered.
    outcome      smallint    NOT NULL CHECK (outcome BETWEEN 1 AND 10 AND outcome <> 2),
    reason       text        NOT NULL,
    job_id       uuid        CHECK ((job_id IS NOT NULL) = (outcome = 1)),
    blocking_job uuid,
    run          bigint      NOT NULL CHECK (run >= 0),
    decided_at   timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, name)
);

CREATE UNIQUE INDEX firings_list ON firings (schedule_id, number);
CREATE INDEX firings_jobs ON firings (schedule_id, number) WHERE job_id IS NOT NULL;
CREATE INDEX firings_old ON firings (decided_at);

CREATE TRIGGER firings_update BEFORE UPDATE ON firings FOR EACH ROW
EXECUTE FUNCTION refuse('a firing is not changed');

-- Queues: the content that waits for the firings of a schedule.
CREATE TABLE schedule_items (
    id           uuid        PRIMARY KEY,
    schedule_id  uuid        NOT NULL REFERENCES schedules (id),
    idem_key     text        NOT NULL CHECK (idem_key <> ''),
    fingerprint  bytea       NOT NULL,
    version      bigint      NOT NULL,
    -- store.ItemState: 1 WAITING, 2 USED, 3 REMOVED, 4 REFUSED.
    state        smallint    NOT NULL,
    -- The order of the waiting items.
    place        bigint      NOT NULL,
    -- Content, while the item is WAITING or REFUSED.
    payload      bytea       NOT NULL,
    payload_kind text        NOT NULL,
    labels       jsonb       NOT NULL CHECK (jsonb_typeof(labels) = 'object'),
    -- The firing and the job that used it.
    firing_name  text        NOT NULL,
    job_id       uuid,
    -- Why it was refused.
    reason       text        NOT NULL,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    -- When it left the queue.
    ended_at     timestamptz,
    created_by   text        NOT NULL,
    updated_by   text        NOT NULL,
    CONSTRAINT schedule_items_row CHECK (
        state BETWEEN 1 AND 4 AND version >= 1 AND (ended_at IS NULL) = (state = 1)
        AND (job_id IS NOT NULL) = (state = 2) AND (firing_name <> '') = (state = 2) AND (reason = '' OR state = 4)
        AND (state IN (1, 4) OR payload = '' AND labels = '{}'::jsonb) AND octet_length(payload) <= 262144
    )
);

-- A key belongs to one item of its schedule forever.
CREATE UNIQUE INDEX schedule_items_key ON schedule_items (schedule_id, idem_key);
-- An item is one job, and a firing takes one item.
CREATE UNIQUE INDEX schedule_items_job ON schedule_items (job_id) WHERE job_id IS NOT NULL;
CREATE UNIQUE INDEX schedule_items_firing ON schedule_items (schedule_id, firing_name) WHERE firing_name <> '';
-- Items with content, in the order of the queue.
CREATE INDEX schedule_items_queue ON schedule_items (schedule_id, place, id) WHERE state IN (1, 4);
CREATE INDEX schedule_items_ended ON schedule_items (schedule_id, ended_at, id) WHERE ended_at IS NOT NULL;

CREATE TRIGGER schedule_items_insert BEFORE INSERT ON schedule_items FOR EACH ROW
WHEN (NEW.state <> 1 OR NEW.version <> 1)
EXECUTE FUNCTION refuse('an item starts as WAITING, version 1');

-- Legal moves are those of store.ItemState.Next.
CREATE TRIGGER schedule_items_update BEFORE UPDATE ON schedule_items FOR EACH ROW
WHEN (
    OLD.state IN (2, 3)
    OR OLD.state = 4 AND NEW.state <> 3
    OR NEW.state <> OLD.state AND NEW.version <> OLD.version + 1
    OR NEW.version NOT IN (OLD.version, OLD.version + 1)
    OR NEW.version = OLD.version AND (NEW.payload <> OLD.payload OR NEW.labels <> OLD.labels)
    OR NEW.id <> OLD.id OR NEW.schedule_id <> OLD.schedule_id OR NEW.idem_key <> OLD.idem_key
    OR NEW.fingerprint <> OLD.fingerprint OR NEW.created_at <> OLD.created_at
)
EXECUTE FUNCTION refuse('an item of a schedule has no such change');

--
-- Rollups: counts of events in buckets of time
--

-- The position up to which the log is counted, the time of the last counted event, and the
-- server that counts.
CREATE TABLE rollup_place (
    id          smallint    PRIMARY KEY CHECK (id = 1),
    position    bigint      NOT NULL DEFAULT 0,
    at          timestamptz NOT NULL DEFAULT 'epoch',
    owner       uuid,
    lease_until timestamptz NOT NULL DEFAULT 'epoch'
);

INSERT INTO rollup_place (id) VALUES (1);

-- Numbers, and nothing that a client wrote: they outlive the jobs that they count.
CREATE TABLE rollups (
    project       text        NOT NULL,
    -- Zero in the counts of the whole project.
    connection_id uuid        NOT NULL,
    -- store.Width: 1 a minute, 2 an hour, 3 a day.
    width         smallint    NOT NULL,
    start_at      timestamptz NOT NULL,
    connector     text        NOT NULL,
    -- job.Class, as in connections.
    class         smallint    NOT NULL,
    -- store.Measure: 1 scheduled, 2 started, 3 attempts, 10 plus a terminal job.State ended so, 30 unknown,
    -- 40 plus a store.Known settled so: 1 found, 2 repeated, 3 late, 4 absent, 5 by a person, 6 by policy.
    measure       smallint    NOT NULL,
    -- The bin of the histogram of durations (store.LastBin); -1: none.
    bin           smallint    NOT NULL,
    count         bigint      NOT NULL,
    PRIMARY KEY (project, connection_id, width, start_at, connector, class, measure, bin)
)
-- The newest buckets are written often.
WITH (fillfactor = 70);

-- For removals.
CREATE INDEX rollups_age ON rollups (width, start_at);

--
-- API keys
--

CREATE TABLE api_keys (
    id           text        PRIMARY KEY CHECK (id <> ''),
    project      text        NOT NULL REFERENCES projects (id),
    name         text        NOT NULL,
    -- The hash of the key itself, which is not stored.
    hash         bytea       NOT NULL CHECK (length(hash) = 32),
    -- Separated by spaces.
    scopes       text        NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
);

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
    state        bytea       PRIMARY KEY CHECK (length(state) = 32),
    project      text        NOT NULL,
    actor        text        NOT NULL,
    app          text        NOT NULL,
    target       bytea       NOT NULL,
    -- The key that sealed is sealed with.
    key_id       text        NOT NULL,
    sealed       bytea       NOT NULL,
    redirect_url text        NOT NULL,
    return_url   text        NOT NULL,
    expires_at   timestamptz NOT NULL
);

CREATE INDEX oauth_logins_end ON oauth_logins (expires_at);
CREATE INDEX oauth_logins_project ON oauth_logins (project, expires_at);

-- Which owner has the lease to renew a connection's tokens (store.RenewalRow).
CREATE TABLE oauth_renewals (
    connection_id uuid        PRIMARY KEY REFERENCES connections (id),
    version       bigint      NOT NULL,
    owner         uuid,
    until         timestamptz NOT NULL,
    tries         bigint      NOT NULL CHECK (tries >= 0),
    begun_at      timestamptz,
    before_at     timestamptz
);

--
-- Retention and erasure
--

-- Which server cleans, and the log's position that it has reached. It is not in meta, which
-- every write reads, because a row that changes often collects dead versions.
CREATE TABLE retention (
    id          smallint    PRIMARY KEY CHECK (id = 1),
    owner       uuid,
    lease_until timestamptz NOT NULL DEFAULT 'epoch',
    -- Up to here no event of a removed job is left.
    dropped_to  bigint      NOT NULL DEFAULT 0
);

INSERT INTO retention (id) VALUES (1);

-- Records of jobs that were erased on request. A new table with data of a job needs its line
-- in removeRows (store/sqlstore/retention.go).
CREATE TABLE erased_jobs (
    job_id        uuid        PRIMARY KEY,
    project       text        NOT NULL,
    -- See job.KeyDigest.
    key_digest    bytea       NOT NULL CHECK (octet_length(key_digest) = 32),
    -- job.State, as in job_state: a terminal one.
    state         smallint    NOT NULL CHECK (state IN (8, 9, 10, 11)),
    -- job.Class, as in connections.
    class         smallint    NOT NULL CHECK (class BETWEEN 1 AND 4),
    attempts      bigint      NOT NULL CHECK (attempts >= 0),
    -- job.Proof of its effect, as in effects; 0: it had none.
    proof         smallint    NOT NULL CHECK (proof BETWEEN 0 AND 5),
    effect_at     timestamptz,
    -- See store.ObjectDigest.
    object_digest bytea       CHECK (octet_length(object_digest) = 32),
    schedule_time timestamptz NOT NULL,
    created_at    timestamptz NOT NULL,
    ended_at      timestamptz NOT NULL,
    erased_at     timestamptz NOT NULL,
    -- The actor that asked for it, without a name.
    actor         text        NOT NULL
);

--
-- Quotas
--

-- What each project stores: the sum of its rows. Each transaction that stores, removes or
-- changes jobs adds a row of its own, so that none waits for another; StoredJobs
-- replaces many rows by their sum.
CREATE TABLE project_use (
    project text   NOT NULL,
    jobs    bigint NOT NULL,
    -- Of payloads and answers, and of the content that waits in queues.
    bytes   bigint NOT NULL
);

CREATE INDEX project_use_project ON project_use (project);

--
-- Subscriptions and their notices
--

-- What reports to people and programs the events of a project. The next step of one is due when
-- the job of its notice has ended, and otherwise at next_at, or, unless only_then is set, when
-- the log has an event after position.
CREATE TABLE subscriptions (
    id             uuid        PRIMARY KEY,
    project        text        NOT NULL CHECK (project <> ''),
    idem_key       text        NOT NULL CHECK (idem_key <> ''),
    -- See job.KeyDigest.
    key_digest     bytea       NOT NULL CHECK (octet_length(key_digest) = 32),
    fingerprint    bytea       NOT NULL,
    -- version rises with changes by callers and of the state, revision with every write.
    version        bigint      NOT NULL CHECK (version >= 1),
    revision       bigint      NOT NULL CHECK (revision >= version),
    -- The service keeps it for the callbacks to its connection.
    callbacks      boolean     NOT NULL,
    connection_id  uuid        NOT NULL,
    display_name   text        NOT NULL,
    -- The contract's message. Empty once it is deleted.
    spec           bytea       NOT NULL CHECK (octet_length(spec) <= 16384),
    -- store.SubscriptionState: 1 ACTIVE, 2 PAUSED, 3 DELETED.
    state          smallint    NOT NULL CHECK (state BETWEEN 1 AND 3),
    -- store.SubscriptionPause: 0 not paused, 1 by a person, 2 by failures.
    pause_cause    smallint    NOT NULL CHECK (pause_cause BETWEEN 0 AND 2),
    note           text        NOT NULL,
    paused_at      timestamptz,
    -- Events up to here are in notices, or in memory.
    position       bigint      NOT NULL CHECK (position >= 0),
    incarnation    bigint      NOT NULL CHECK (incarnation >= 1),
    -- What a decision needs of earlier events (internal/notice), as JSON; empty: nothing.
    memory         bytea       NOT NULL CHECK (octet_length(memory) <= 65536),
    next_at        timestamptz,
    only_then      boolean     NOT NULL,
    -- What a person asked for: -1 a test, above 0 the notice to send again; 0: nothing.
    asked          bigint      NOT NULL CHECK (asked >= -1),
    -- The number of its newest notice.
    number         bigint      NOT NULL CHECK (number >= 0),
    -- The notice that is under way, with its job; or 0 and NULL: none is.
    open_number    bigint      NOT NULL CHECK (open_number BETWEEN 0 AND number),
    open_job       uuid        CHECK ((open_job IS NULL) = (open_number = 0)),
    -- The notice whose jobs have failed, how many, and since when; 0: none.
    failed_number  bigint      NOT NULL CHECK (failed_number BETWEEN 0 AND number),
    failures       bigint      NOT NULL CHECK ((failures > 0) = (failed_number > 0)),
    failing_at     timestamptz CHECK ((failing_at IS NULL) = (failed_number = 0)),
    last_error     text        NOT NULL,
    delivered_at   timestamptz,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    deleted_at     timestamptz CHECK ((deleted_at IS NULL) = (state <> 3)),
    created_by     text        NOT NULL,
    updated_by     text        NOT NULL,
    CHECK ((pause_cause > 0) = (state = 2)),
    CHECK ((paused_at IS NULL) = (state <> 2)),
    CHECK (state <> 3 OR spec = ''::bytea AND memory = ''::bytea AND note = '')
);

CREATE UNIQUE INDEX subscriptions_key ON subscriptions (key_digest);
CREATE INDEX subscriptions_list ON subscriptions (project, created_at, id);
-- Those that may have a step to make.
CREATE INDEX subscriptions_live ON subscriptions (id) WHERE state = 1 OR open_job IS NOT NULL OR asked <> 0;
-- Counts of those that are not deleted (store.Vitals).
CREATE INDEX subscriptions_counted ON subscriptions (state, pause_cause, failed_number) WHERE state < 3;
-- The notices under way, which pass a stop of their project.
CREATE INDEX subscriptions_open ON subscriptions (connection_id) WHERE open_job IS NOT NULL;

CREATE TRIGGER subscriptions_update BEFORE UPDATE ON subscriptions FOR EACH ROW
WHEN (NEW.revision <> OLD.revision + 1
    OR NEW.version < OLD.version OR NEW.version > OLD.version + 1
    OR OLD.state = 3 AND (NEW.state <> 3 OR NEW.version <> OLD.version)
    OR NEW.state <> OLD.state AND NEW.version <> OLD.version + 1
    OR NEW.number < OLD.number OR NEW.number > OLD.number + 1
    OR NEW.id <> OLD.id OR NEW.project <> OLD.project OR NEW.idem_key <> OLD.idem_key OR NEW.key_digest <> OLD.key_digest
    OR NEW.fingerprint <> OLD.fingerprint OR NEW.created_at <> OLD.created_at OR NEW.callbacks <> OLD.callbacks)
EXECUTE FUNCTION refuse('a subscription has no such change');

-- The connections by which the ends of jobs are reported (store.NewJob.Callback).
CREATE TABLE job_callbacks (
    job_id        uuid PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    connection_id uuid NOT NULL
);

-- What was sent for a subscription. A row is open exactly while its job is under way.
CREATE TABLE notices (
    subscription_id uuid        NOT NULL REFERENCES subscriptions (id),
    number          bigint      NOT NULL CHECK (number >= 1),
    -- store.NoticeKind: 1 EVENTS, 2 DIGEST, 3 TEST, 4 SILENCE, 5 RECOVERED, 6 CONNECTIONS.
    kind            smallint    NOT NULL CHECK (kind BETWEEN 1 AND 7),
    -- It reports the events after one position, up to another one.
    after_position  bigint      NOT NULL,
    to_position     bigint      NOT NULL CHECK (to_position >= after_position),
    incarnation     bigint      NOT NULL CHECK (incarnation >= 1),
    events          bigint      NOT NULL CHECK (events >= 0),
    -- Jobs that carry it, and the newest of them.
    tries           bigint      NOT NULL CHECK (tries >= 1),
    job_id          uuid        NOT NULL,
    made_at         timestamptz NOT NULL,
    ended_at        timestamptz,
    -- job.State in which the newest job has ended; 0: it has not.
    outcome         smallint    NOT NULL CHECK ((outcome = 0) = (ended_at IS NULL)),
    PRIMARY KEY (subscription_id, number)
);

-- At most one is under way, so they are sent in order.
CREATE UNIQUE INDEX notices_open ON notices (subscription_id) WHERE ended_at IS NULL;

-- Which server makes notices, and until when.
CREATE TABLE notice_place (
    id     smallint    PRIMARY KEY CHECK (id = 1),
    worker text        NOT NULL,
    until  timestamptz NOT NULL
);

INSERT INTO notice_place (id, worker, until) VALUES (1, '', 'epoch');

--
-- Stops
--

-- What keeps jobs from starting (store.Stops).
CREATE TABLE stops (
    id            uuid        PRIMARY KEY,
    -- store.StopScope: 1 everything, 2 a project, 3 a connector, 4 a connection, 5 a destination,
    -- 6 a label.
    scope         smallint    NOT NULL CHECK (scope BETWEEN 1 AND 31),
    -- '': every project.
    project       text        NOT NULL,
    connector     text        NOT NULL,
    connection_id uuid,
    hold_key      text        NOT NULL,
    label         text        NOT NULL,
    value         text        NOT NULL,
    -- store.StopCause: 1 a person, 2 a breaker.
    cause         smallint    NOT NULL CHECK (cause BETWEEN 1 AND 31),
    note          text        NOT NULL,
    begin_at      timestamptz NOT NULL,
    -- NULL: it ends when a caller ends it.
    end_at        timestamptz,
    -- A caller stated begin_at or end_at.
    planned       boolean     NOT NULL,
    created_at    timestamptz NOT NULL,
    -- Actors, as in events.
    created_by    text        NOT NULL,
    -- When a caller ended it, and which; NULL: no one has.
    ended_at      timestamptz,
    ended_by      text        NOT NULL DEFAULT '',
    -- A window that ends in it begins again (store.Stop.HoldWindows).
    hold_windows  boolean     NOT NULL,
    -- Of a breaker: from when on one job may be its probe or, while one is, until when that
    -- one's result counts; the claim token of that job; and the probes in a row that failed.
    probe_at      timestamptz,
    prober        uuid,
    probes        integer     NOT NULL DEFAULT 0,
    CHECK ((cause = 2) = (probe_at IS NOT NULL)),
    CHECK (end_at > begin_at)
);

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
    id          uuid        PRIMARY KEY,
    project     text        NOT NULL,
    -- store.PlanOp: 1 RESOLVE, 2 RETRY.
    op          smallint    NOT NULL CHECK (op BETWEEN 1 AND 15),
    -- job.Ruling, as in resolutions; 0 with RETRY.
    ruling      smallint    NOT NULL CHECK (ruling BETWEEN 0 AND 4),
    -- Also jobs that are still looked for.
    override    boolean     NOT NULL,
    -- RETRY: the time between two jobs; 0: none.
    pace        bigint      NOT NULL CHECK (pace >= 0),
    -- The incident that it decides; '': it was made of others.
    incident    text        NOT NULL,
    note        text        NOT NULL,
    -- Actors, as in events.
    created_by  text        NOT NULL,
    started_by  text        NOT NULL DEFAULT '',
    -- store.PlanState: 1 PLANNED, 2 RUNNING, 3 DONE.
    state       smallint    NOT NULL CHECK (state BETWEEN 1 AND 3),
    pages       bigint      NOT NULL CHECK (pages >= 0),
    -- Jobs that it lists, of these jobs that it is to change, and of these jobs that it has
    -- changed, and that it has left out.
    jobs        bigint      NOT NULL CHECK (jobs >= 0),
    planned     bigint      NOT NULL CHECK (planned BETWEEN 0 AND jobs),
    changed     bigint      NOT NULL DEFAULT 0 CHECK (changed >= 0),
    left_out    bigint      NOT NULL DEFAULT 0 CHECK (left_out >= 0),
    -- That of meta as the plan was made: its versions mean nothing in another.
    incarnation bigint      NOT NULL,
    -- More jobs were concerned than a plan can have.
    cut         boolean     NOT NULL,
    created_at  timestamptz NOT NULL,
    started_at  timestamptz,
    -- When its last page was finished.
    advanced_at timestamptz,
    ended_at    timestamptz,
    CHECK ((started_at IS NULL) = (state = 1)),
    CHECK ((ended_at IS NULL) = (state <> 3)),
    CHECK (changed + left_out <= planned)
);

CREATE INDEX plans_project ON plans (project, created_at, id);
CREATE INDEX plans_running ON plans (advanced_at, id) WHERE state = 2;

-- The jobs of a plan, at most 500 a page (store.EncodePlanItems).
CREATE TABLE plan_pages (
    plan_id  uuid    NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
    number   bigint  NOT NULL CHECK (number >= 0),
    finished boolean NOT NULL DEFAULT false,
    items    bytea   NOT NULL,
    PRIMARY KEY (plan_id, number)
);

-- +goose Down
-- There is no down migration: a schema is only ever replaced by a newer one.
SELECT 1;
