"""Speaks to a deployment with Agno's own client and checks what comes back.

Usage: client.py URL CHECK [ARGUMENT …]. Ends with status 1 and the trace of what failed.
"""

import asyncio
import sys
from datetime import datetime

from agno.client import AgentOSClient
from agno.db.base import SessionType
from agno.exceptions import RemoteServerUnavailableError
from agno.media import File, Image
from agno.models.response import ToolExecution
from agno.run.agent import RunContentEvent
from agno.run.base import RunStatus

import contract
from checks import equal, names, refused

SUM = "What is 6*7?"


async def streamed(events):
    seen = [event async for event in events]
    for event in seen:
        assert event.run_id and event.session_id and event.agent_id == "demo", event
    return seen


async def discovery(client):
    for config in (client.get_config(), await client.aget_config()):
        equal([agent.id for agent in config.agents], ["demo"])
        equal((config.teams, config.workflows), ([], []))
        assert config.os_id and config.databases, config
        equal(config.session.dbs[0].db_id, config.databases[0])
        equal(config.available_models[0].provider, "demo")
    (listed,) = await client.list_agents()
    equal((listed.id, listed.name, listed.db_id), ("demo", "Demo", config.databases[0]))
    for agent in (client.get_agent("demo"), await client.aget_agent("demo")):
        equal(agent.id, "demo")
        equal((agent.model.provider, agent.is_factory), ("demo", False))
        assert "calculator" in [tool["name"] for tool in agent.tools["tools"]], agent.tools
    equal((await client.list_teams(), await client.list_workflows()), ([], []))
    await refused(404, client.aget_agent("nobody"))


async def blocking_runs(client):
    first = await client.run_agent("demo", SUM, session_id="blocking", user_id="alice", metadata={"order": 17})
    equal(first.status, RunStatus.completed)
    equal((first.agent_id, first.session_id, first.user_id), ("demo", "blocking", "alice"))
    assert "42" in first.content, first.content
    equal(first.input.input_content, SUM)
    equal(first.metadata, {"order": 17})
    (tool,) = first.tools
    equal((tool.tool_name, tool.tool_args, tool.tool_call_error), ("calculator", {"expression": "6*7"}, False))
    equal(tool.result, "42")
    roles = [message.role for message in first.messages if message.role != "system"]
    equal(roles, ["user", "assistant", "tool", "assistant"])
    assert first.metrics is not None and isinstance(first.created_at, int), first
    second = await client.run_agent("demo", "and you?", session_id="blocking", user_id="alice")
    assert second.run_id != first.run_id
    fresh = await client.run_agent("demo", "hello")
    assert fresh.session_id and fresh.user_id is None, fresh
    await refused(404, client.run_agent("nobody", "hello"))
    await refused(422, client.run_agent("demo", ""))
    await refused(404, client.run_agent("demo", "hello", session_id="blocking", user_id="bob"))


async def streamed_runs(client):
    events = await streamed(client.run_agent_stream("demo", SUM, session_id="streamed"))
    told = names(events)
    equal((told[0], told[-1]), ("RunStarted", "RunCompleted"))
    for name in ("ToolCallStarted", "ToolCallCompleted", "ModelRequestStarted", "ModelRequestCompleted"):
        assert name in told, told
    assert told.index("ToolCallStarted") < told.index("ToolCallCompleted"), told
    words = [event for event in events if isinstance(event, RunContentEvent)]
    assert len(words) > 1, told
    end = events[-1]
    assert "".join(event.content or "" for event in words).endswith(end.content), (words, end)
    assert "42" in end.content, end
    done = next(event for event in events if event.event == "ToolCallCompleted")
    equal((done.tool.tool_name, done.tool.result), ("calculator", "42"))
    run = await client.get_session_run("streamed", end.run_id)
    equal((run.status, run.content), ("COMPLETED", end.content))
    await refused(404, streamed(client.run_agent_stream("nobody", "hello")))


async def media(client):
    image = Image(content=b"\x89PNG\r\n\x1a\n" + bytes(range(256)), mime_type="image/png")
    file = File(content=b"%PDF-1.4 words", mime_type="application/pdf", filename="order.pdf")
    run = await client.run_agent("demo", "look", session_id="media", images=[image], files=[file])
    equal(run.status, RunStatus.completed)
    equal((run.input.images[0].mime_type, run.input.files[0].filename), ("image/png", "order.pdf"))
    await refused(422, client.run_agent("demo", "look", images=[Image(url="http://127.0.0.1/x.png")]))


async def sessions(client):
    made = await client.create_session(
        session_id="made", user_id="carol", session_name="Order 17", session_state={"a": [1, None]}, agent_id="demo"
    )
    equal((made.session_id, made.agent_session_id, made.session_name), ("made", "made", "Order 17"))
    equal((made.session_state, made.user_id, made.agent_id), ({"a": [1, None]}, "carol", "demo"))
    await refused(409, client.create_session(session_id="made", user_id="carol", agent_id="demo"))
    first = await client.run_agent("demo", SUM, session_id="made", user_id="carol")
    second = await client.run_agent("demo", "and you?", session_id="made", user_id="carol")

    read = await client.get_session("made", user_id="carol")
    equal([message["role"] for message in read.chat_history][:1], ["user"])
    equal((read.chat_history[0]["content"], read.chat_history[-1]["content"]), (SUM, second.content))
    assert isinstance(read.created_at, datetime) and read.updated_at >= read.created_at, read
    equal((await client.get_session("made", SessionType.AGENT, user_id="carol")).session_id, "made")
    await refused(404, client.get_session("made", SessionType.TEAM, user_id="carol"))

    runs = await client.get_session_runs("made", user_id="carol")
    equal([(run.run_id, run.status, run.run_input) for run in runs],
          [(first.run_id, "COMPLETED", SUM), (second.run_id, "COMPLETED", "and you?")])
    equal((runs[0].content, runs[0].run_response_format), (first.content, "text"))
    equal(await client.get_session_runs("made", user_id="carol", status=["error", "CANCELLED"]), [])
    equal(len(await client.get_session_runs("made", user_id="carol", created_after=1)), 2)
    for previews in (client.get_session_run_previews("made"), await client.aget_session_run_previews("made")):
        equal([preview.run_id for preview in previews], [first.run_id, second.run_id])
        equal(previews[1].content_preview, second.content[:280])
    one = await client.get_session_run("made", first.run_id, user_id="carol")
    equal((one.run_id, one.agent_id, one.messages[-1]["content"]), (first.run_id, "demo", first.content))
    await refused(404, client.get_session_run("made", "no-run"))

    renamed = await client.rename_session("made", "Order 18", user_id="carol")
    equal((renamed.session_name, renamed.session_id), ("Order 18", "made"))
    await refused(404, client.rename_session("no-session", "x"))
    changed = await client.update_session("made", session_state={"b": 2}, metadata={"m": 1}, user_id="carol")
    equal((changed.session_state, changed.metadata, changed.session_name), ({"b": 2}, {"m": 1}, "Order 18"))

    for call in (client.get_session, client.get_session_runs):
        await refused(404, call("made", user_id="bob"))
    await client.delete_session("made", user_id="bob")
    equal((await client.get_session("made", user_id="carol")).session_name, "Order 18")
    await client.delete_session("made", user_id="carol")
    await refused(404, client.get_session("made", user_id="carol"))
    await client.delete_session("made", user_id="carol")


async def pages(client):
    ids = [f"page-{number}" for number in range(7)]
    for number, session in enumerate(ids):
        await client.create_session(session_id=session, session_name=f"Paged {number}", agent_id="demo", user_id="dora")
    seen = []
    for page in range(1, 5):
        answer = await client.get_sessions(
            SessionType.AGENT, component_id="demo", session_name="paged", limit=3, page=page, user_id="dora"
        )
        equal((answer.meta.page, answer.meta.limit), (page, 3))
        equal((answer.meta.total_count, answer.meta.total_pages), (7, 3))
        seen += [session.session_id for session in answer.data]
        assert all(session.session_type == "agent" and session.user_id == "dora" for session in answer.data), answer
    equal(sorted(seen), ids)
    oldest = await client.get_sessions(session_name="paged", limit=1, sort_order="asc")
    equal(oldest.data[0].session_id, "page-0")
    equal((await client.get_sessions(SessionType.TEAM)).data, [])
    await refused(422, client.get_sessions(page=0))
    await refused(422, client.get_sessions(limit=0))
    await client.delete_sessions(ids, [SessionType.AGENT] * len(ids), user_id="dora")
    equal((await client.get_sessions(session_name="paged")).meta.total_count, 0)


async def cancelling(client):
    run = None
    seen = []
    async for event in client.run_agent_stream("demo", "sleep 60", session_id="cancelled"):
        seen.append(event)
        if event.event == "ToolCallStarted":
            await client.cancel_agent_run("demo", event.run_id)
    equal(names(seen)[-1], "RunCancelled")
    run = await client.get_session_run("cancelled", seen[-1].run_id)
    equal(run.status, "CANCELLED")
    # A second request changes nothing, and the session goes on.
    await client.cancel_agent_run("demo", run.run_id)
    after = await client.run_agent("demo", "hello", session_id="cancelled")
    equal(after.status, RunStatus.completed)
    await refused(404, client.cancel_agent_run("demo", "no-run"))


async def nobody_there(_):
    client = AgentOSClient("http://127.0.0.1:1")
    try:
        await client.list_agents()
    except RemoteServerUnavailableError:
        return
    raise AssertionError("a server that is not there answered")


async def continued(client, agent, run, session, how):
    """A run that waits is continued with the tool that it names, as one answer or as a stream."""
    waiting = await client.get_session_run(session, run)
    equal(waiting.status, "PAUSED")
    (tool,) = [ToolExecution.from_dict(tool) for tool in waiting.tools if tool.get("requires_confirmation")]
    tool.result = "refunded by hand"
    if how == "blocking":
        end = await client.continue_agent_run(agent, run, [tool], session_id=session)
        equal(end.status, RunStatus.completed)
        equal([done.result for done in end.tools], ["refunded by hand"])
    else:
        events = [event async for event in client.continue_agent_run_stream(agent, run, [tool], session_id=session)]
        assert "RunContinued" in names(events), names(events)
        equal(names(events)[-1], "RunCompleted")
    await refused(409, client.continue_agent_run(agent, run, [tool], session_id=session))


async def people(client):
    """Calls that wait for somebody: shown as Agno's own requirements, decided with Agno's own means."""
    paused = await client.run_agent("desk", "pay {}, book {} and sign {}", session_id="p", user_id="ann")
    equal(paused.status, RunStatus.paused)
    assert paused.is_paused and len(paused.active_requirements) == 3, paused
    pay, book, sign = paused.active_requirements
    equal([one.pause_type for one in (pay, book, sign)], ["confirmation", "user_input", "external_execution"])
    assert pay.needs_confirmation and book.needs_user_input and sign.needs_external_execution
    equal([(field.name, field.field_type) for field in book.user_input_schema], [("days", int)])
    # One by one: all calls are sent along, decided or not.
    pay.reject("too much")
    tools = [one.tool_execution for one in (pay, book, sign)]
    after = await client.continue_agent_run("desk", paused.run_id, tools, session_id="p", user_id="ann")
    equal((after.status, len(after.active_requirements)), (RunStatus.paused, 2))
    book, sign = after.active_requirements
    book.provide_user_input({"days": 3})
    sign.set_external_execution_result("signed")
    tools = [one.tool_execution for one in (pay, book, sign)]
    await refused(404, client.continue_agent_run("desk", paused.run_id, tools, session_id="p", user_id="bob"))
    stream = client.continue_agent_run_stream("desk", paused.run_id, tools, session_id="p", user_id="ann")
    events = [event async for event in stream]
    assert "RunContinued" in names(events), names(events)
    equal(names(events)[-1], "RunCompleted")
    end = await client.get_session_run("p", paused.run_id, user_id="ann")
    equal(end.status, "COMPLETED")
    done = {tool["tool_name"]: tool for tool in end.tools}
    equal((done["pay"]["confirmed"], done["pay"]["confirmation_note"]), (False, "too much"))
    equal((done["book"]["tool_args"], done["book"]["result"]), ({"days": 3}, "booked"))
    equal(done["sign"]["result"], "signed")
    # A stream ends with the pause, which says the same.
    events = [event async for event in client.run_agent_stream("desk", "pay {}", session_id="p2", user_id="ann")]
    equal(names(events)[-1], "RunPaused")
    (pay,) = events[-1].active_requirements
    pay.confirm()
    end = await client.continue_agent_run("desk", events[-1].run_id, [pay.tool_execution], session_id="p2", user_id="ann")
    equal(end.status, RunStatus.completed)
    equal([(tool.confirmed, tool.result) for tool in end.tools], [(True, "booked")])


CHECKS = [discovery, blocking_runs, streamed_runs, media, sessions, pages, cancelling, nobody_there, continued, people]
CHECKS += contract.CHECKS


def main():
    url, name, *arguments = sys.argv[1:]
    check = next(check for check in CHECKS if check.__name__ == name)
    asyncio.run(check(AgentOSClient(url, timeout=30), *arguments))


if __name__ == "__main__":
    main()
