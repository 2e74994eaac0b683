-- A database as a program of schema version 1 left it, for the test of the
-- upgrade: one connection; jobs "dropped" (cancelled, its events removed from the
-- log), "succeeded", "ambiguous", "claimed", and "scheduled", which replies to
-- "succeeded". Written by the sqlite3 shell's .dump; never edited.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
INSERT INTO goose_db_version VALUES(1,0,1,'2026-11-21 07:56:48');
INSERT INTO goose_db_version VALUES(2,1,1,'2026-11-21 07:56:48');
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
INSERT INTO meta VALUES(1,X'ca626f44972a2d8e962cd8b2dbe8f16b',1893553445678901,'a file on a machine',1,'',3);
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
INSERT INTO projects VALUES('default','Default',1795247808000000);
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
INSERT INTO connections VALUES(X'624ea4b594245f80bbdc20c01a903806','default','fake','',X'',1,0,'',0,0,0,NULL,'',0,'',NULL,'',X'01',1,1893553445678901,1893553445678901,NULL,'','');
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
INSERT INTO jobs VALUES(X'eac99170d4d425e4bbf42e8d129747c2','default','dropped',X'624ea4b594245f80bbdc20c01a903806','account','webhook',0,0,0,0,0,1,'{"made":"at version 1"}','',NULL,NULL,X'01',1893553445678901,X'7b2274657874223a2268656c6c6f227d');
INSERT INTO jobs VALUES(X'52085178fed9994abdf4fba74bae5e01','default','succeeded',X'624ea4b594245f80bbdc20c01a903806','account','webhook',0,0,0,0,0,1,'{"made":"at version 1"}','',NULL,NULL,X'01',1893553445678901,X'7b2274657874223a2268656c6c6f227d');
INSERT INTO jobs VALUES(X'ca8af73d8a244d7cd9fb19568aedf805','default','ambiguous',X'624ea4b594245f80bbdc20c01a903806','account','webhook',0,0,0,0,0,1,'{"made":"at version 1"}','',NULL,NULL,X'01',1893553447178901,X'7b2274657874223a2268656c6c6f227d');
INSERT INTO jobs VALUES(X'8399db309b87820e6bf108823b97bff2','default','claimed',X'624ea4b594245f80bbdc20c01a903806','account','webhook',0,0,0,0,0,1,'{"made":"at version 1"}','',NULL,NULL,X'01',1893553447178901,X'7b2274657874223a2268656c6c6f227d');
INSERT INTO jobs VALUES(X'ea172841a726b2b9171fa370a013f6c2','default','scheduled',X'624ea4b594245f80bbdc20c01a903806','account','webhook',0,0,0,0,0,1,'{"made":"at version 1"}','',X'52085178fed9994abdf4fba74bae5e01',NULL,X'01',1893553447178901,X'7b2274657874223a2268656c6c6f227d');
CREATE TABLE job_keys (
    project    TEXT NOT NULL,
    idem_key   TEXT NOT NULL,
    job_id     BLOB NOT NULL CHECK (length(job_id) = 16),
    kept_until INTEGER,
    PRIMARY KEY (project, idem_key)
) STRICT, WITHOUT ROWID;
INSERT INTO job_keys VALUES('default','ambiguous',X'ca8af73d8a244d7cd9fb19568aedf805',NULL);
INSERT INTO job_keys VALUES('default','claimed',X'8399db309b87820e6bf108823b97bff2',NULL);
INSERT INTO job_keys VALUES('default','dropped',X'eac99170d4d425e4bbf42e8d129747c2',NULL);
INSERT INTO job_keys VALUES('default','scheduled',X'ea172841a726b2b9171fa370a013f6c2',NULL);
INSERT INTO job_keys VALUES('default','succeeded',X'52085178fed9994abdf4fba74bae5e01',NULL);
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
INSERT INTO job_state VALUES(X'52085178fed9994abdf4fba74bae5e01','default',X'624ea4b594245f80bbdc20c01a903806','account',8,4,1,1,0,0,0,0,1893553445678901,1893560645678901,NULL,NULL,1893553447178901,'w',1,NULL,'',0,'',0,NULL,NULL,1893553447178901,1893553447178901);
INSERT INTO job_state VALUES(X'8399db309b87820e6bf108823b97bff2','default',X'624ea4b594245f80bbdc20c01a903806','account',2,2,0,1,0,0,0,0,1893553447178901,1893560647178901,1893553507178901,X'71b3b12db0307c2fb125830c084eff50',1893553447178901,'w',1,NULL,'',0,'',0,NULL,NULL,1893553447178901,NULL);
INSERT INTO job_state VALUES(X'ca8af73d8a244d7cd9fb19568aedf805','default',X'624ea4b594245f80bbdc20c01a903806','account',5,4,1,1,0,0,0,0,1893553447178901,1893560647178901,1893553449178901,NULL,1893553447178901,'w',1,NULL,'',5,'timeout',0,1893553447178901,NULL,1893553447178901,NULL);
INSERT INTO job_state VALUES(X'ea172841a726b2b9171fa370a013f6c2','default',X'624ea4b594245f80bbdc20c01a903806','account',1,1,0,1,0,0,0,0,1893557045678901,1893564245678901,1893557045678901,NULL,NULL,'',1,NULL,'',0,'',0,NULL,NULL,1893553447178901,NULL);
INSERT INTO job_state VALUES(X'eac99170d4d425e4bbf42e8d129747c2','default',X'624ea4b594245f80bbdc20c01a903806','account',10,3,0,1,0,0,0,0,1893553445678901,1893560645678901,NULL,NULL,1893553445678901,'w',1,1893553445678901,'',0,'',0,NULL,NULL,1893553445678901,1893553445678901);
CREATE TABLE transitions (
    from_state INTEGER NOT NULL,
    to_state   INTEGER NOT NULL,
    PRIMARY KEY (from_state, to_state)
) STRICT, WITHOUT ROWID;
INSERT INTO transitions VALUES(0,1);
INSERT INTO transitions VALUES(1,2);
INSERT INTO transitions VALUES(1,10);
INSERT INTO transitions VALUES(1,11);
INSERT INTO transitions VALUES(2,1);
INSERT INTO transitions VALUES(2,3);
INSERT INTO transitions VALUES(2,4);
INSERT INTO transitions VALUES(2,6);
INSERT INTO transitions VALUES(2,8);
INSERT INTO transitions VALUES(2,9);
INSERT INTO transitions VALUES(2,10);
INSERT INTO transitions VALUES(2,11);
INSERT INTO transitions VALUES(3,4);
INSERT INTO transitions VALUES(3,5);
INSERT INTO transitions VALUES(3,6);
INSERT INTO transitions VALUES(3,8);
INSERT INTO transitions VALUES(3,9);
INSERT INTO transitions VALUES(3,10);
INSERT INTO transitions VALUES(4,6);
INSERT INTO transitions VALUES(4,7);
INSERT INTO transitions VALUES(4,8);
INSERT INTO transitions VALUES(4,9);
INSERT INTO transitions VALUES(4,10);
INSERT INTO transitions VALUES(5,3);
INSERT INTO transitions VALUES(5,4);
INSERT INTO transitions VALUES(5,6);
INSERT INTO transitions VALUES(5,7);
INSERT INTO transitions VALUES(5,8);
INSERT INTO transitions VALUES(5,9);
INSERT INTO transitions VALUES(5,10);
INSERT INTO transitions VALUES(5,11);
INSERT INTO transitions VALUES(6,2);
INSERT INTO transitions VALUES(6,4);
INSERT INTO transitions VALUES(6,8);
INSERT INTO transitions VALUES(6,10);
INSERT INTO transitions VALUES(6,11);
INSERT INTO transitions VALUES(7,4);
INSERT INTO transitions VALUES(7,6);
INSERT INTO transitions VALUES(7,8);
INSERT INTO transitions VALUES(7,9);
INSERT INTO transitions VALUES(7,10);
INSERT INTO transitions VALUES(9,6);
INSERT INTO transitions VALUES(9,8);
INSERT INTO transitions VALUES(10,8);
INSERT INTO transitions VALUES(11,6);
INSERT INTO transitions VALUES(11,8);
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
INSERT INTO connection_ready VALUES(X'624ea4b594245f80bbdc20c01a903806','account',1893557045678901,0,NULL,'',0,'',0,0,1893553447178901,1893553447178903);
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
INSERT INTO attempts VALUES(X'52085178fed9994abdf4fba74bae5e01',1,1,X'c5d8eb8dfc17a4e6e1160f4297bcf7da','w',1893553447178901,1893553447178901,1893553457178901,1893553477178901,1893553507178901,'52085178-fed9-994a-bdf4-fba74bae5e01',X'646967657374',0,'','','',1,0,'',0,0,1893553447178901,X'');
INSERT INTO attempts VALUES(X'ca8af73d8a244d7cd9fb19568aedf805',1,1,X'51f0f99ca416e41f13472abe0ea8aa98','w',1893553447178901,1893553447178901,1893553457178901,1893553477178901,1893553507178901,'ca8af73d-8a24-4d7c-d9fb-19568aedf805',X'646967657374',0,'','','',4,5,'timeout',0,0,1893553447178901,X'');
CREATE TABLE open_intents (
    account     TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    job_id      BLOB    NOT NULL UNIQUE REFERENCES jobs (id),
    attempt     INTEGER NOT NULL,
    PRIMARY KEY (account, fingerprint)
) STRICT, WITHOUT ROWID;
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
INSERT INTO effects VALUES(X'52085178fed9994abdf4fba74bae5e01','connection 624ea4b5-9424-5f80-bbdc-20c01a903806 account','fake','object-1','',1,1,1,1,1893553447178901);
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
CREATE TABLE resolutions (
    id     INTEGER PRIMARY KEY,
    job_id BLOB    NOT NULL REFERENCES jobs (id),
    ruling INTEGER NOT NULL CHECK (ruling BETWEEN 1 AND 4),
    actor  TEXT    NOT NULL,
    note   TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
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
INSERT INTO events VALUES(4,'default',X'52085178fed9994abdf4fba74bae5e01',X'624ea4b594245f80bbdc20c01a903806',NULL,1,0,1,1,0,'','','',1893553445678901);
INSERT INTO events VALUES(5,'default',X'52085178fed9994abdf4fba74bae5e01',X'624ea4b594245f80bbdc20c01a903806',NULL,2,1,2,2,0,'w','','',1893553447178901);
INSERT INTO events VALUES(6,'default',X'52085178fed9994abdf4fba74bae5e01',X'624ea4b594245f80bbdc20c01a903806',NULL,3,2,3,3,1,'w','','',1893553447178901);
INSERT INTO events VALUES(7,'default',X'52085178fed9994abdf4fba74bae5e01',X'624ea4b594245f80bbdc20c01a903806',NULL,4,3,8,4,1,'ann','','',1893553447178901);
INSERT INTO events VALUES(8,'default',X'ca8af73d8a244d7cd9fb19568aedf805',X'624ea4b594245f80bbdc20c01a903806',NULL,1,0,1,1,0,'','','',1893553447178901);
INSERT INTO events VALUES(9,'default',X'ca8af73d8a244d7cd9fb19568aedf805',X'624ea4b594245f80bbdc20c01a903806',NULL,2,1,2,2,0,'w','','',1893553447178901);
INSERT INTO events VALUES(10,'default',X'ca8af73d8a244d7cd9fb19568aedf805',X'624ea4b594245f80bbdc20c01a903806',NULL,3,2,3,3,1,'w','','',1893553447178901);
INSERT INTO events VALUES(11,'default',X'ca8af73d8a244d7cd9fb19568aedf805',X'624ea4b594245f80bbdc20c01a903806',NULL,4,3,5,4,1,'ann','','timeout',1893553447178901);
INSERT INTO events VALUES(12,'default',X'8399db309b87820e6bf108823b97bff2',X'624ea4b594245f80bbdc20c01a903806',NULL,1,0,1,1,0,'','','',1893553447178901);
INSERT INTO events VALUES(13,'default',X'8399db309b87820e6bf108823b97bff2',X'624ea4b594245f80bbdc20c01a903806',NULL,2,1,2,2,0,'w','','',1893553447178901);
INSERT INTO events VALUES(14,'default',X'ea172841a726b2b9171fa370a013f6c2',X'624ea4b594245f80bbdc20c01a903806',NULL,1,0,1,1,0,'','','',1893553447178901);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('goose_db_version',2);
INSERT INTO sqlite_sequence VALUES('events',14);
CREATE UNIQUE INDEX connections_key ON connections (project, idem_key) WHERE idem_key <> '';
CREATE INDEX connections_list ON connections (project, created_at, id);
CREATE INDEX connection_credentials_key ON connection_credentials (key_id);
CREATE INDEX jobs_created ON jobs (project, created_at, id);
CREATE INDEX jobs_schedule ON jobs (schedule_id, created_at) WHERE schedule_id IS NOT NULL;
CREATE INDEX job_state_runnable ON job_state (connection_id, hold_key, next_at) WHERE state IN (1, 6);
CREATE INDEX job_state_fence ON job_state (next_at) WHERE state IN (2, 3);
CREATE INDEX job_state_look ON job_state (next_at) WHERE state IN (4, 5);
CREATE INDEX job_state_deadline ON job_state (start_deadline) WHERE state IN (1, 2, 6);
CREATE INDEX job_state_in_flight ON job_state (connection_id) WHERE state IN (2, 3);
CREATE INDEX job_state_list ON job_state (project, schedule_time, job_id);
CREATE TRIGGER job_state_insert BEFORE INSERT ON job_state
WHEN NEW.version <> 1 OR NEW.attempt <> 0
    OR NOT EXISTS (SELECT 1 FROM transitions WHERE from_state = 0 AND to_state = NEW.state)
BEGIN
    SELECT RAISE(ABORT, 'a job starts as SCHEDULED, version 1, attempt 0');
END;
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
CREATE TRIGGER job_state_delete BEFORE DELETE ON job_state
WHEN OLD.state NOT IN (8, 9, 10, 11)
BEGIN
    SELECT RAISE(ABORT, 'a live job is never deleted');
END;
CREATE INDEX connection_ready_runnable ON connection_ready (runnable_at, served_turn) WHERE runnable_at IS NOT NULL;
CREATE UNIQUE INDEX attempts_arm_token ON attempts (arm_token);
CREATE UNIQUE INDEX attempts_live ON attempts (job_id) WHERE result = 0;
CREATE TRIGGER attempts_insert BEFORE INSERT ON attempts
WHEN EXISTS (SELECT 1 FROM attempts WHERE job_id = NEW.job_id AND result IN (0, 4) AND effect_key <> NEW.effect_key)
BEGIN
    SELECT RAISE(ABORT, 'an earlier attempt is open and has another effect key');
END;
CREATE TRIGGER attempts_update BEFORE UPDATE ON attempts
WHEN OLD.result <> NEW.result
BEGIN
    SELECT RAISE(ABORT, 'a confirmed attempt stays confirmed') WHERE OLD.result = 1;
    SELECT RAISE(ABORT, 'what is known of an attempt is not forgotten')
    WHERE NEW.result = 0 OR (NEW.result = 4 AND OLD.result IN (2, 3, 7) AND NEW.handle = '');
END;
CREATE UNIQUE INDEX effects_object ON effects (account, namespace, external_id)
WHERE external_id <> '' AND owns_id = 1;
CREATE INDEX observations_job ON observations (job_id, id);
CREATE INDEX resolutions_job ON resolutions (job_id, id);
CREATE UNIQUE INDEX events_job ON events (job_id, sequence);
COMMIT;
