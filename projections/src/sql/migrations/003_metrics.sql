-- What users did and used, by day: columns and key as AgentOS's table has them (`user_id` '' is nobody), ours behind.
-- It is folded from events that were folded before it was thought of, so the rows of before go: without a position,
-- everything is folded again from the log.

DELETE FROM approvals;
DELETE FROM run_events;
DELETE FROM runs;
DELETE FROM sessions;
DELETE FROM components;
DELETE FROM projection_position;

CREATE TABLE metrics (
    id                      TEXT    NOT NULL PRIMARY KEY,
    agent_runs_count        INTEGER NOT NULL,
    team_runs_count         INTEGER NOT NULL DEFAULT 0,
    workflow_runs_count     INTEGER NOT NULL DEFAULT 0,
    agent_sessions_count    INTEGER NOT NULL,
    team_sessions_count     INTEGER NOT NULL DEFAULT 0,
    workflow_sessions_count INTEGER NOT NULL DEFAULT 0,
    users_count             INTEGER NOT NULL,
    token_metrics           TEXT /* json */ NOT NULL,
    model_metrics           TEXT /* json */ NOT NULL,
    date                    TEXT    NOT NULL,
    aggregation_period      TEXT    NOT NULL,
    user_id                 TEXT    NOT NULL,
    created_at              INTEGER NOT NULL,
    updated_at              INTEGER NOT NULL,
    status_metrics          TEXT /* json */ NOT NULL,
    component_metrics       TEXT /* json */ NOT NULL
) STRICT;
CREATE UNIQUE INDEX metrics_of_user ON metrics (user_id, date, aggregation_period);
CREATE INDEX metrics_by_date ON metrics (date, user_id);
