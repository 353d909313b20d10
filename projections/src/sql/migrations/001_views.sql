-- Columns as AgentOS's tables have them (JSON as text), ours beside: `owner` is `user_id` with '' for nobody,
-- `title_folded` is what a search by name looks at.
--
-- Every index ends with what else a list may be filtered or sorted by, so that pages are found and counted
-- without reading a row.

CREATE TABLE schema_versions (
    table_name TEXT NOT NULL PRIMARY KEY,
    version    TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT
) STRICT;

CREATE TABLE projection_position (
    projection  TEXT    NOT NULL,
    partition   INTEGER NOT NULL,
    next_offset INTEGER NOT NULL,
    term        INTEGER NOT NULL,
    chain       BLOB    NOT NULL,
    log_id      TEXT    NOT NULL,
    PRIMARY KEY (projection, partition)
) STRICT;

CREATE TABLE sessions (
    session_id    TEXT    NOT NULL PRIMARY KEY,
    session_type  TEXT    NOT NULL,
    agent_id      TEXT,
    team_id       TEXT,
    workflow_id   TEXT,
    user_id       TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER,
    owner         TEXT    NOT NULL,
    title_folded  TEXT    NOT NULL,
    first_message TEXT,
    metadata      TEXT /* json */,
    summary       TEXT /* json */,
    agent_data    TEXT /* json */,
    team_data     TEXT /* json */,
    workflow_data TEXT /* json */,
    session_data  TEXT /* json */
) STRICT;
CREATE INDEX sessions_by_created ON sessions (created_at, session_id, session_type);
CREATE INDEX sessions_by_updated ON sessions (updated_at, session_id, session_type);
CREATE INDEX sessions_of_owner   ON sessions (owner, created_at, session_id, session_type, agent_id, updated_at);
CREATE INDEX sessions_of_agent   ON sessions (agent_id, created_at, session_id, session_type);
/* sqlite */ CREATE INDEX sessions_by_title   ON sessions (title_folded, owner, agent_id, session_type, created_at, session_id);

CREATE TABLE runs (
    run_id        TEXT    NOT NULL PRIMARY KEY,
    session_id    TEXT    NOT NULL,
    run_type      TEXT    NOT NULL,
    agent_id      TEXT,
    team_id       TEXT,
    workflow_id   TEXT,
    user_id       TEXT,
    parent_run_id TEXT,
    status        TEXT    NOT NULL,
    run_index     INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER,
    owner         TEXT    NOT NULL,
    run_data      TEXT /* json */ NOT NULL
) STRICT;
CREATE INDEX runs_of_session ON runs (session_id, run_index, run_id);
CREATE INDEX runs_by_created ON runs (created_at, run_index, run_id);
CREATE INDEX runs_of_owner   ON runs (owner, created_at, run_index, run_id, agent_id, status);
CREATE INDEX runs_of_agent   ON runs (agent_id, created_at, run_index, run_id);
CREATE INDEX runs_by_status  ON runs (status, created_at, run_index, run_id, agent_id);

CREATE TABLE run_events (
    session_id TEXT    NOT NULL,
    run_id     TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    type       TEXT    NOT NULL,
    data       TEXT /* json */ NOT NULL
) STRICT;
CREATE UNIQUE INDEX run_events_in_order ON run_events (run_id, seq);

CREATE TABLE components (
    agent_id TEXT NOT NULL,
    version  TEXT NOT NULL,
    spec     TEXT /* json */ NOT NULL,
    PRIMARY KEY (agent_id, version)
) STRICT;
