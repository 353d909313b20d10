-- The steps of runs. They are folded from events that were folded before they were thought of, so the rows of before go:
-- without a position, everything is folded again from the log.

DELETE FROM metrics;
DELETE FROM approvals;
DELETE FROM run_events;
DELETE FROM runs;
DELETE FROM sessions;
DELETE FROM components;
DELETE FROM projection_position;

CREATE TABLE run_steps (
    run_id             TEXT    NOT NULL,
    step               INTEGER NOT NULL,
    session_id         TEXT    NOT NULL,
    user_id            TEXT,
    owner              TEXT    NOT NULL,
    kind               TEXT    NOT NULL,
    name               TEXT,
    status             TEXT    NOT NULL,
    attempts           INTEGER NOT NULL,
    requested_at       INTEGER NOT NULL,
    completed_at       INTEGER,
    duration_ms        INTEGER,
    input_tokens       INTEGER,
    output_tokens      INTEGER,
    total_tokens       INTEGER,
    cache_read_tokens  INTEGER,
    cache_write_tokens INTEGER,
    reasoning_tokens   INTEGER,
    error              TEXT,
    PRIMARY KEY (run_id, step)
) STRICT;

-- What was written for AgentOS's tables reads these, whose columns are AgentOS's own.
CREATE VIEW agno_sessions AS
SELECT session_id, session_type, agent_id, team_id, workflow_id, user_id, session_data, agent_data, team_data,
       workflow_data, metadata, summary, created_at, updated_at
FROM sessions;
CREATE VIEW agno_runs AS
SELECT run_id, session_id, run_type, agent_id, team_id, workflow_id, user_id, parent_run_id, status, run_index,
       run_data, created_at, updated_at
FROM runs;
