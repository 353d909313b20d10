-- The queue of approvals: what waits, or waited, for somebody. It is folded from events that were folded before it was
-- thought of, so the rows of before go: without a position, everything is folded again from the log.

DELETE FROM run_events;
DELETE FROM runs;
DELETE FROM sessions;
DELETE FROM components;
DELETE FROM projection_position;

CREATE TABLE approvals (
    id          TEXT    NOT NULL PRIMARY KEY,
    run_id      TEXT    NOT NULL,
    session_id  TEXT    NOT NULL,
    agent_id    TEXT,
    user_id     TEXT,
    owner       TEXT    NOT NULL,
    step        INTEGER NOT NULL,
    status      TEXT    NOT NULL,
    pause_type  TEXT    NOT NULL,
    tool_name   TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER,
    expires_at  INTEGER,
    resolved_at INTEGER,
    resolved_by TEXT,
    data        TEXT /* json */ NOT NULL
) STRICT;
CREATE INDEX approvals_of_run     ON approvals (run_id, status, id);
CREATE INDEX approvals_of_session ON approvals (session_id);
CREATE INDEX approvals_by_created ON approvals (created_at, id);
CREATE INDEX approvals_of_owner   ON approvals (owner, status, created_at, id);
CREATE INDEX approvals_by_status  ON approvals (status, created_at, id);
