-- Schedules, and what became of their due times. Columns and names are AgentOS's, ours stand behind them.

CREATE TABLE schedules (
    id                  TEXT    NOT NULL PRIMARY KEY,
    name                TEXT    NOT NULL,
    description         TEXT,
    method              TEXT    NOT NULL,
    endpoint            TEXT    NOT NULL,
    payload             TEXT /* json */,
    cron_expr           TEXT    NOT NULL,
    timezone            TEXT    NOT NULL,
    timeout_seconds     INTEGER NOT NULL,
    max_retries         INTEGER NOT NULL,
    retry_delay_seconds INTEGER NOT NULL,
    enabled             INTEGER NOT NULL,
    next_run_at         INTEGER,
    user_id             TEXT,
    managed_by          TEXT,
    target_type         TEXT,
    target_id           TEXT,
    disabled_reason     TEXT,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER,
    at                  INTEGER,
    overlap             TEXT    NOT NULL,
    catch_up            TEXT    NOT NULL,
    jitter_seconds      INTEGER NOT NULL
) STRICT;
CREATE INDEX schedules_by_created ON schedules (created_at, id);
CREATE INDEX schedules_of_user    ON schedules (user_id, created_at, id);
CREATE INDEX schedules_by_enabled ON schedules (enabled, next_run_at);
-- Unique as far as the log is concerned: it is decided there. Rows of one batch are not written in its order.
CREATE INDEX schedules_by_name ON schedules (user_id, name);

CREATE TABLE schedule_runs (
    id           TEXT    NOT NULL PRIMARY KEY,
    schedule_id  TEXT    NOT NULL,
    attempt      INTEGER NOT NULL,
    triggered_at INTEGER,
    completed_at INTEGER,
    status       TEXT    NOT NULL,
    status_code  INTEGER,
    run_id       TEXT,
    session_id   TEXT,
    error        TEXT,
    input        TEXT /* json */,
    output       TEXT /* json */,
    requirements TEXT /* json */,
    user_id      TEXT,
    created_at   INTEGER NOT NULL,
    attempt_id   TEXT    NOT NULL UNIQUE,
    due_at       INTEGER NOT NULL,
    until        INTEGER
) STRICT;
CREATE INDEX schedule_runs_of_schedule ON schedule_runs (schedule_id, created_at, id);
CREATE INDEX schedule_runs_by_status ON schedule_runs (status, created_at);
