"""The run contract: the queue, background runs, streams that are left and resumed, keys, approvals.

Agno's client has methods for a part of it only. The rest goes through the same client by the calls that those methods
are made of, and what comes back is read by Agno's own types: its events, its RunOutput, and the schemas that its server
answers with.
"""

import asyncio

from agno.os.routers.approvals.schema import ApprovalResponse, ApprovalStatusResponse
from agno.os.routers.job_queue.schema import QueueJobSchema
from agno.run.agent import RunOutput, run_output_event_from_dict
from agno.run.base import RunStatus

from checks import equal, names, refused

OPEN = (RunStatus.pending, RunStatus.running)
# A run that waits for longer than any check takes.
LONG = "sleep 3000"


def backgrounded(client, agent, message, session, **more):
    """A run that nobody waits for: its ticket, as the client reads it."""
    return client.run_agent(agent, message, session_id=session, background="true", **more)


async def read(client, agent, run, session, **params):
    return RunOutput.from_dict(await client._aget(f"/agents/{agent}/runs/{run}", params={"session_id": session, **params}))


async def reached(client, agent, run, session, wanted):
    """Polls a run until it is there."""
    while (found := await read(client, agent, run, session)).status != wanted:
        assert found.status in OPEN, found
        await asyncio.sleep(0.02)
    return found


async def job(client, run):
    return QueueJobSchema(**await client._aget(f"/queue/jobs/{run}"))


async def frames(client, path, **form):
    """The frames of a stream as they come, those about the stream too."""
    async for frame in client._parse_sse_events(client._astream_post_form_data(path, form), dict):
        yield frame


async def polled(client):
    ticket = await backgrounded(client, "demo", "What is 6*7?", "polled", user_id="alice", metadata={"order": 17})
    equal((ticket.status, ticket.session_id), (RunStatus.pending, "polled"))
    end = await reached(client, "demo", ticket.run_id, "polled", RunStatus.completed)
    assert "42" in end.content, end
    equal((end.run_id, end.user_id, end.metadata), (ticket.run_id, "alice", {"order": 17}))
    equal([(tool.tool_name, tool.result) for tool in end.tools], [("calculator", "42")])
    (listed,) = await client._aget("/agents/demo/runs", params={"session_id": "polled", "status": "COMPLETED"})
    equal(RunOutput.from_dict(listed).run_id, ticket.run_id)
    for session, params in (("another", {}), ("polled", {"user_id": "bob"})):
        await refused(404, read(client, "demo", ticket.run_id, session, **params))
    await refused(404, read(client, "demo", "no-run", "polled"))
    asked = {"type": "object", "required": ["sum"], "properties": {"sum": {"type": "integer"}}}
    await refused(422, client.run_agent("demo", "hello", output_schema={"type": "no type"}))
    unfit = await client.run_agent("demo", "hello", session_id="unfit", output_schema=asked)
    equal(unfit.status, RunStatus.error)


async def resumed(client):
    """A stream that is left goes on without its reader, who comes back behind the last frame that it saw."""
    seen = []
    async for event in client.run_agent_stream("demo", "count to 30", session_id="resumed", background="true"):
        seen.append(event)
        if names(seen).count("RunContent") == 5:
            break
    run, last = seen[-1].run_id, seen[-1].event_index
    path = f"/agents/demo/runs/{run}/resume"
    missed = [frame async for frame in frames(client, path, session_id="resumed", last_event_index=last)]
    told = [frame["event"] for frame in missed]
    assert told[0] in ("catch_up", "subscribed", "replay"), told
    assert all(frame["run_id"] == run for frame in missed), missed
    events = [run_output_event_from_dict(frame) for frame in missed if "event_index" in frame]
    whole = [run_output_event_from_dict(frame) async for frame in frames(client, path) if "event_index" in frame]
    shown = lambda events: [(event.event, event.event_index, event.content) for event in events]
    equal(shown(seen + events), shown(whole))
    equal(whole[-1].event, "RunCompleted")
    # Whoever has seen all of it is told so, and nothing else.
    again = [frame async for frame in frames(client, path, last_event_index=whole[-1].event_index)]
    equal([(frame["event"], frame["status"], frame["total_events"]) for frame in again], [("replay", "COMPLETED", 0)])
    first = [frame async for frame in frames(client, path, last_event_index=-1)]
    equal((first[0]["event"], first[0]["total_events"]), ("replay", len(whole)))
    for status, route, form in (
        (404, "/agents/demo/runs/no-run/resume", {}),
        (404, path, {"session_id": "another"}),
        (422, path, {"last_event_index": "last"}),
    ):
        await refused(status, anext(frames(client, route, **form)))


async def queued(client):
    """One slot: who waits is seen, cancelled before it began, and queued again."""
    at_work = await backgrounded(client, "demo", LONG, "at work")
    await reached(client, "demo", at_work.run_id, "at work", RunStatus.running)
    waits = await backgrounded(client, "demo", "What is 6*7?", "waits", user_id="alice")
    equal((await read(client, "demo", waits.run_id, "waits")).status, RunStatus.pending)
    stats = await client._aget("/queue/stats")
    equal(stats["counts"], {"running": 1, "queued": 1})
    assert stats["oldest_queued_age_seconds"] >= 0, stats
    page = await client._aget("/queue/jobs", params={"status": ["queued", "running"], "sort_order": "asc"})
    # They were made within a second, so either may come first.
    jobs = sorted((QueueJobSchema(**one) for one in page["data"]), key=lambda job: job.attempt, reverse=True)
    equal([(one.id, one.status, one.attempt) for one in jobs], [(at_work.run_id, "running", 1), (waits.run_id, "queued", 0)])
    equal((page["meta"]["total_count"], page["meta"]["page"], page["meta"]["total_pages"]), (2, 1, 1))
    equal((jobs[1].user_id, jobs[1].component_id, jobs[1].payload["input"]), ("alice", "demo", "What is 6*7?"))

    await client.cancel_agent_run("demo", waits.run_id)
    gone = await read(client, "demo", waits.run_id, "waits")
    equal((gone.status, gone.cancellation_stage), (RunStatus.cancelled, "PENDING"))
    equal((await job(client, waits.run_id)).status, "cancelled")
    again = QueueJobSchema(**await client._apost(f"/queue/jobs/{waits.run_id}/requeue"))
    equal((again.id, again.status), (waits.run_id, "queued"))
    await client.cancel_agent_run("demo", at_work.run_id)
    stopped = await reached(client, "demo", at_work.run_id, "at work", RunStatus.cancelled)
    equal(stopped.cancellation_stage, "EXECUTING")
    end = await reached(client, "demo", waits.run_id, "waits", RunStatus.completed)
    assert "42" in end.content, end
    done = await job(client, waits.run_id)
    equal((done.status, done.completed_at is None), ("completed", False))
    await refused(400, client._apost(f"/queue/jobs/{waits.run_id}/requeue"))
    await refused(404, client._apost("/queue/jobs/no-job/requeue"))
    await refused(404, client._aget("/queue/jobs/no-job"))
    await refused(422, client._aget("/queue/jobs", params={"status": "later"}))


async def full(client):
    """One slot and room for one that waits; a session of an agent that takes one message at a time."""
    runs = [await backgrounded(client, "demo", LONG, session) for session in ("first", "second")]
    response = await refused(429, backgrounded(client, "demo", "hello", "third"))
    assert int(response.headers["retry-after"]) >= 1, response.headers
    for run in runs:
        await client.cancel_agent_run("demo", run.run_id)
    held = await backgrounded(client, "single", LONG, "one")
    await refused(409, client.run_agent("single", "hello", session_id="one"))
    await client.cancel_agent_run("single", held.run_id)
    equal((await client.run_agent("single", "hello", session_id="one")).status, RunStatus.completed)


async def keyed(client):
    """One key, one run; however the repeat is to be shown."""
    ask = lambda message="hello", agent="demo", key="k", **more: client.run_agent(
        agent, message, headers={"Idempotency-Key": key}, **{"background": "true", "user_id": "alice", **more}
    )
    first = await ask()
    equal((await ask()).run_id, first.run_id)
    shown = await ask(background=None)
    equal((shown.run_id, shown.status), (first.run_id, RunStatus.completed))
    stream = client.run_agent_stream("demo", "hello", user_id="alice", headers={"Idempotency-Key": "k"})
    events = [event async for event in stream]
    equal((names(events)[-1], events[-1].run_id), ("RunCompleted", first.run_id))
    for other in ({"message": "good bye"}, {"agent": "single"}, {"session_id": "another"}, {"metadata": {"a": 1}}):
        response = await refused(409, ask(**other))
        assert first.run_id not in response.text, response.text
    assert (await ask(user_id="bob")).run_id != first.run_id
    assert (await ask(key="k" * 512)).run_id != first.run_id
    await refused(422, ask(key="k" * 513))


async def approved(client):
    """The queue of what waits for people."""
    paused = await client.run_agent("desk", "pay {} and sign {}", session_id="a", user_id="ann")
    equal(paused.status, RunStatus.paused)
    page = await client._aget("/approvals", params={"status": "pending", "user_id": "ann"})
    waiting = {one.pause_type: one for one in (ApprovalResponse(**one) for one in page["data"])}
    equal((sorted(waiting), page["meta"]["total_count"]), (["confirmation", "external_execution"], 2))
    pay = waiting["confirmation"]
    equal((pay.run_id, pay.session_id, pay.agent_id, pay.tool_name), (paused.run_id, "a", "desk", "pay"))
    equal(pay.run_status, RunStatus.paused)
    equal((await client._aget("/approvals/count", params={"user_id": "ann"}))["count"], 2)
    equal((await client._aget("/approvals/count", params={"user_id": "bob"}))["count"], 0)
    equal(ApprovalResponse(**await client._aget(f"/approvals/{pay.id}")).id, pay.id)

    async def resolve(approval, **body):
        return ApprovalResponse(**await client._apost(f"/approvals/{approval.id}/resolve", body))

    await refused(422, resolve(pay, status="perhaps"))
    done = await resolve(pay, status="approved", resolved_by="boss")
    equal((done.status, done.resolved_by, done.run_status), ("approved", "boss", RunStatus.paused))
    await refused(409, resolve(pay, status="rejected"))
    status = ApprovalStatusResponse(**await client._aget(f"/approvals/{pay.id}/status"))
    equal((status.approval_id, status.status, status.resolved_by), (pay.id, "approved", "boss"))
    await resolve(waiting["external_execution"], status="rejected")
    # To resolve is to decide: nobody has to continue the run.
    end = await reached(client, "desk", paused.run_id, "a", RunStatus.completed)
    equal([(tool.tool_name, tool.confirmed) for tool in end.tools], [("pay", True), ("sign", False)])
    await refused(404, client._aget("/approvals/no-approval"))


async def forked(client):
    """Another run goes on from a message, or answers anew; a session is copied. All of it in Agno's own words."""
    of_alice = {"session_id": "forked", "user_id": "alice"}
    first = await client.run_agent("demo", "What is 6*7?", **of_alice)
    other = await client.continue_agent_run("demo", first.run_id, [], **of_alice, input="and you?")
    equal(other.status, RunStatus.completed)
    equal((other.forked_from_run_id, other.forked_from_message_index), (first.run_id, len(first.messages)))
    equal([message.content for message in other.messages][: len(first.messages) + 1], [*(message.content for message in first.messages), "and you?"])
    equal([tool.result for tool in other.tools], ["42"])
    better = await client.continue_agent_run("demo", other.run_id, [], **of_alice, regenerate="true")
    equal((better.status, better.regenerated_from), (RunStatus.completed, other.run_id))
    equal((await read(client, "demo", other.run_id, "forked", user_id="alice")).status, RunStatus.regenerated)
    events = client.continue_agent_run_stream("demo", first.run_id, [], **of_alice, fork="true", continue_from="last_user")
    events = [event async for event in events]
    equal((names(events)[0], names(events)[-1]), ("RunStarted", "RunCompleted"))
    runs = await client.get_session_runs("forked", user_id="alice")
    told = [(run.run_id, run.forked_from_run_id, run.regenerated_from) for run in runs]
    alone, anew = (first.run_id, None, None), (better.run_id, other.run_id, other.run_id)
    equal(told, [alone, (other.run_id, first.run_id, None), anew, (events[-1].run_id, first.run_id, None)])
    marks = await client._aget(f"/agents/demo/runs/{first.run_id}/checkpoints", params=of_alice)
    equal(marks["checkpoints"][-1]["continue_from"], len(first.messages))
    copy = await client._apost("/agents/demo/sessions/forked/fork", params={"user_id": "alice"})
    equal(copy["forked_from_session_id"], "forked")
    copies = await client.get_session_runs(copy["session_id"], user_id="alice")
    equal([run.forked_from_session_id for run in copies], ["forked"] * 3)
    await refused(422, client.continue_agent_run("demo", first.run_id, [], **of_alice))
    await refused(422, client.continue_agent_run("demo", first.run_id, [], **of_alice, input="x", continue_from="99"))
    await refused(404, client.continue_agent_run("demo", first.run_id, [], user_id="bob", input="x"))


CHECKS = [polled, resumed, queued, full, keyed, approved, forked]
