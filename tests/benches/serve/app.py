"""AgentOS as its documentation has it: one agent, PostgreSQL, the durable queue; started by uvicorn."""

import os

from agno.agent import Agent
from agno.db.postgres import PostgresDb
from agno.models.openai import OpenAIChat
from agno.os import AgentOS, QueueConfig

db = PostgresDb(db_url=os.environ["BENCH_DATABASE"])
model = OpenAIChat(id="instant", base_url=os.environ["BENCH_MODEL"], api_key="none")
agent = Agent(id="bench", name="bench", model=model, db=db, telemetry=False)
queue = QueueConfig(durable=True, max_queue_depth=1_000_000)
app = AgentOS(id="bench", agents=[agent], db=db, queue=queue, telemetry=False).get_app()
