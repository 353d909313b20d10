"""What the checks of Agno's client share."""

from httpx import HTTPStatusError


def equal(got, wanted):
    assert got == wanted, f"{got!r} is not {wanted!r}"


async def refused(status, call):
    """The client maps a refusal to `HTTPStatusError` with this status and a `detail` for people."""
    try:
        got = await call
    except HTTPStatusError as error:
        equal(error.response.status_code, status)
        if error.response.is_stream_consumed:
            assert error.response.json()["detail"], error.response.text
        return error.response
    raise AssertionError(f"{got!r} came in place of {status}")


def names(events):
    return [event.event for event in events]
