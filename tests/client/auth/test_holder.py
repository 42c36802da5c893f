"""The token of a transport, and its renewals."""

import logging
from collections.abc import AsyncIterator

import anyio
import pytest

from backchannel.client.auth.auth import Reply, Why
from backchannel.client.auth.challenge import Challenge
from backchannel.client.auth.holder import Attempt, TokenHolder
from backchannel.client.call import Call, current
from backchannel.errors import AuthRequired, ConnectionFailed, ConnectionLost, LoginFailed
from tests.client.auth.issuing import DENIED, REFUSED, Issuing, narrow

pytestmark = pytest.mark.anyio
SERVER = "https://s.test/mcp"
BOUND = 20


@pytest.fixture
def auth() -> Issuing:
    return Issuing()


@pytest.fixture
async def holder(auth: Issuing) -> AsyncIterator[TokenHolder]:
    holder = TokenHolder(auth, SERVER)
    yield holder
    await holder.close()


async def shown(holder: TokenHolder, attempt: Attempt | None = None) -> str | None:
    """The token that a request shows."""
    headers = await holder.headers("POST", SERVER, attempt or Attempt())
    return headers.get("authorization")


async def refused(holder: TokenHolder, reply: Reply = REFUSED, attempt: Attempt | None = None) -> str | None:
    """A request that is refused, and the token that it shows after."""
    attempt = attempt or Attempt()
    await shown(holder, attempt)
    await holder.answer(reply, attempt)
    return await shown(holder, attempt)


async def test_without_a_token_nothing_is_shown(holder: TokenHolder, auth: Issuing) -> None:
    assert await shown(holder) is None and auth.demands == []


async def test_a_stored_token_is_shown_from_the_first_request_on(holder: TokenHolder, auth: Issuing) -> None:
    await auth.store.save(SERVER, b"stored")
    assert await shown(holder) == "Bearer stored" and auth.demands == []


async def test_a_refusal_leads_to_a_token(holder: TokenHolder, auth: Issuing) -> None:
    challenge = Challenge("bearer", "https://s.test/metadata", ("a",))
    assert await refused(holder, Reply(SERVER, 401, {}, challenge)) == "Bearer t1"
    (demand,) = auth.demands
    assert (demand.server, demand.why, demand.challenge, demand.token, demand.again) == (
        SERVER,
        Why.REFUSED,
        challenge,
        None,
        False,
    )


async def test_a_second_refusal_of_one_request_says_so(holder: TokenHolder, auth: Issuing) -> None:
    attempt = Attempt()
    await refused(holder, attempt=attempt)
    assert await refused(holder, attempt=attempt) == "Bearer t2"
    assert [demand.again for demand in auth.demands] == [False, True]
    assert auth.demands[1].token is not None and auth.demands[1].token.access_token == "t1"


@pytest.mark.case("I03")
async def test_a_third_ends_it_and_so_does_the_next_request(holder: TokenHolder, auth: Issuing) -> None:
    attempt = Attempt()
    await refused(holder, attempt=attempt)
    await refused(holder, attempt=attempt)
    for again in (attempt, Attempt()):
        with pytest.raises(AuthRequired, match="just issued"):
            await refused(holder, attempt=again)
    assert len(auth.demands) == 2


async def test_a_request_that_gets_through_with_a_new_token_begins_anew(holder: TokenHolder, auth: Issuing) -> None:
    for number in range(1, 6):
        attempt = Attempt()
        assert await refused(holder, attempt=attempt) == f"Bearer t{number}"
        holder.accepted(attempt)


async def test_one_that_needed_none_does_not(holder: TokenHolder, auth: Issuing) -> None:
    """A server may refuse one tool for ever, and all else goes well: nobody has to log in again each time."""
    for _ in range(2):
        await refused(holder)
        holder.accepted(Attempt())
    with pytest.raises(AuthRequired):
        await refused(holder)
    auth.now += 601
    assert await refused(holder) == "Bearer t3"


async def test_what_others_get_through_is_none_of_its_business(holder: TokenHolder, auth: Issuing) -> None:
    """One request that is refused for ever has its end, however well it goes for those beside it."""
    attempt = Attempt()
    for _ in range(2):
        await refused(holder, attempt=attempt)
        holder.accepted(Attempt(renewals=1))
    with pytest.raises(AuthRequired):
        await refused(holder, attempt=attempt)
    assert len(auth.demands) == 2


async def test_a_token_that_is_renewed_in_time_is_none_of_them(holder: TokenHolder, auth: Issuing) -> None:
    auth.life = 100
    await refused(holder)
    for number in range(2, 6):
        auth.now += 95
        assert await shown(holder) == f"Bearer t{number}"
    assert await refused(holder) == "Bearer t6"


async def test_where_others_have_renewed_it_meanwhile_that_one_is_shown(holder: TokenHolder, auth: Issuing) -> None:
    one, other = Attempt(), Attempt()
    await shown(holder, one)
    await shown(holder, other)
    await holder.answer(REFUSED, one)
    await holder.answer(REFUSED, other)
    assert await shown(holder, other) == "Bearer t1" and len(auth.demands) == 1


@pytest.mark.case("G09")
async def test_twenty_who_find_it_refused_make_one_renewal(holder: TokenHolder, auth: Issuing) -> None:
    got: list[str | None] = []

    async def request() -> None:
        got.append(await refused(holder))

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(request)
    assert got == ["Bearer t1"] * 20 and len(auth.demands) == 1


@pytest.mark.case("G09")
async def test_who_began_it_may_be_cancelled(holder: TokenHolder, auth: Issuing) -> None:
    asked, go_on, got = anyio.Event(), anyio.Event(), []

    async def gate() -> None:
        asked.set()
        await go_on.wait()

    auth.gate = gate

    async def first(scope: anyio.CancelScope) -> None:
        with scope:
            await refused(holder)

    async def second() -> None:
        got.append(await refused(holder))

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()
            group.start_soon(first, scope)
            await asked.wait()
            group.start_soon(second)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            go_on.set()
    assert got == ["Bearer t1"] and len(auth.demands) == 1


async def test_one_that_is_about_to_expire_is_renewed_before_it_is_shown(holder: TokenHolder, auth: Issuing) -> None:
    auth.life = 3600
    await refused(holder)
    auth.now += 3571
    assert await shown(holder) == "Bearer t2"
    assert auth.demands[1].why is Why.EXPIRES


async def test_unless_somebody_would_have_to_be_asked(holder: TokenHolder, auth: Issuing) -> None:
    """The server says when it takes it no more."""
    auth.life, auth.renewable = 3600, False
    await refused(holder)
    auth.now += 4000
    assert await shown(holder) == "Bearer t1"


@pytest.mark.parametrize("failure", [DENIED, ConnectionFailed("no network")])
async def test_where_that_fails_it_is_shown_all_the_same_and_tried_once(
    holder: TokenHolder, auth: Issuing, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    auth.life = 3600
    await refused(holder)
    auth.now, auth.failure = auth.now + 3571, failure
    with caplog.at_level(logging.INFO, "backchannel.client"):
        assert [await shown(holder), await shown(holder)] == ["Bearer t1"] * 2
    assert len(auth.demands) == 2 and "was not renewed" in caplog.text and "t1" not in caplog.text


async def test_more_scopes_are_asked_for(holder: TokenHolder, auth: Issuing) -> None:
    await refused(holder)
    assert await refused(holder, narrow("w")) == "Bearer t2"
    assert auth.demands[1].why is Why.SCOPE and auth.demands[1].challenge.scope == ("w",)


async def test_a_step_up_that_was_refused_may_be_tried_again(holder: TokenHolder, auth: Issuing) -> None:
    auth.failure = DENIED
    for _ in range(2):
        with pytest.raises(LoginFailed):
            await refused(holder, narrow("w"))
    assert len(auth.demands) == 2


async def test_a_step_up_that_fails_names_the_scopes(holder: TokenHolder, auth: Issuing) -> None:
    auth.failure = LoginFailed("nobody is here")
    with pytest.raises(LoginFailed) as caught:
        await refused(holder, narrow("w", "v"))
    said = "this request needs more scopes: insufficient_scope: it needs the scopes w v; nobody is here"
    assert str(caught.value) == said


async def test_what_the_server_says_of_a_token_is_told_and_the_token_is_not(holder: TokenHolder, auth: Issuing) -> None:
    await auth.store.save(SERVER, b"stored-token")
    parameters = {"error_description": "stored-token\nis for another audience"}
    reply = Reply(SERVER, 401, {}, Challenge("bearer", error="invalid_token", parameters=parameters))
    auth.failure = LoginFailed("nobody is here", error="access_denied")
    with pytest.raises(LoginFailed) as caught:
        await refused(holder, reply)
    why = r"invalid_token: …\nis for another audience"
    assert str(caught.value) == f"the token was refused: {why}; nobody is here"
    assert caught.value.error == "access_denied"
    auth.failure, attempt = None, Attempt()
    with pytest.raises(AuthRequired) as again:
        for _ in range(3):
            await refused(holder, reply, attempt)
    assert str(again.value).endswith(r"issued: invalid_token: stored-token\nis for another audience")  # it is not t2


async def test_a_login_that_was_the_first_needs_no_reason(holder: TokenHolder, auth: Issuing) -> None:
    auth.failure = LoginFailed("nobody is here")
    with pytest.raises(LoginFailed, match="^nobody is here$"):
        await refused(holder)


async def test_but_not_twice_for_the_same(holder: TokenHolder, auth: Issuing) -> None:
    await refused(holder, narrow("w"))
    with pytest.raises(AuthRequired, match="has not the scopes for this request: w"):
        await refused(holder, narrow("w"))
    assert len(auth.demands) == 1


async def test_of_what_was_asked_for_only_so_much_is_remembered(
    holder: TokenHolder, auth: Issuing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may want other scopes each time."""
    monkeypatch.setattr("backchannel.client.auth.holder._MOST_ASKED", 5)
    for number in range(20):
        await refused(holder, narrow(f"s{number}"))
    assert len(holder._asked) <= 5


async def test_nor_for_those_that_the_token_has(holder: TokenHolder, auth: Issuing) -> None:
    await refused(holder, Reply(SERVER, 401, {}, Challenge("bearer", scope=("a", "b"))))
    with pytest.raises(AuthRequired, match="a b"):
        await refused(holder, narrow("b", "a"))


async def test_nor_more_than_three_times_for_one_request(holder: TokenHolder, auth: Issuing) -> None:
    attempt = Attempt()
    for number in range(3):
        await refused(holder, narrow(f"s{number}"), attempt)
    with pytest.raises(AuthRequired):
        await refused(holder, narrow("s3"), attempt)
    assert len(auth.demands) == 3


async def test_a_challenge_without_scopes_is_asked_for_once(holder: TokenHolder, auth: Issuing) -> None:
    await refused(holder, narrow())
    with pytest.raises(AuthRequired, match="more scopes"):
        await refused(holder, narrow())


async def test_a_nonce_takes_no_new_token(holder: TokenHolder, auth: Issuing) -> None:
    await refused(holder)
    wants = Reply(SERVER, 401, {}, Challenge("dpop", error="use_dpop_nonce"))
    assert await refused(holder, wants) == "Bearer t1"
    assert auth.nonces == 1 and len(auth.demands) == 1


async def test_nonces_without_end_have_one(holder: TokenHolder, auth: Issuing) -> None:
    wants, attempt = Reply(SERVER, 401, {}, Challenge("dpop", error="use_dpop_nonce")), Attempt()
    with pytest.raises(AuthRequired, match="refuses every token"):
        for _ in range(20):
            await refused(holder, wants, attempt)


async def test_each_who_waits_gets_an_error_of_its_own(holder: TokenHolder, auth: Issuing) -> None:
    auth.failure = DENIED
    errors: list[LoginFailed] = []

    async def request() -> None:
        with pytest.raises(LoginFailed, match="^denied$") as caught:
            await refused(holder)
        errors.append(caught.value)

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(request)
            group.start_soon(request)
    assert [error.error for error in errors] == ["access_denied"] * 2
    assert errors[0] is not errors[1] and len(auth.demands) == 1


async def test_where_no_network_is_it_was_not_sent(holder: TokenHolder, auth: Issuing) -> None:
    auth.failure = ConnectionFailed("as.test did not answer")
    with pytest.raises(ConnectionFailed, match="no token could be had: as.test did not answer"):
        await refused(holder)


async def test_after_a_failure_it_may_be_tried_again(holder: TokenHolder, auth: Issuing) -> None:
    auth.failure = DENIED
    with pytest.raises(LoginFailed):
        await refused(holder)
    auth.failure = None
    assert await refused(holder) == "Bearer t2"


async def test_the_end_breaks_off_what_is_under_way(holder: TokenHolder, auth: Issuing) -> None:
    auth.gate = anyio.sleep_forever

    async def request() -> None:
        with pytest.raises(ConnectionLost):
            await refused(holder)

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(request)
            await anyio.wait_all_tasks_blocked()
            assert holder.busy
            await holder.close()
        assert not holder.busy
        with pytest.raises(ConnectionLost):
            await refused(holder)


async def test_but_a_refresh_gets_a_moment_to_be_stored(holder: TokenHolder, auth: Issuing) -> None:
    """Its refresh token has been used, and only the answer has the next one."""
    auth.refresh_token, closed = "r", anyio.Event()
    await refused(holder)
    asked, go_on = anyio.Event(), anyio.Event()

    async def gate() -> None:
        asked.set()
        await go_on.wait()
        await auth.store.save("next", b"stored")

    async def request() -> None:
        await refused(holder)

    async def close() -> None:
        await holder.close()
        closed.set()

    auth.gate = gate
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(request)
            await asked.wait()
            group.start_soon(close)
            await anyio.wait_all_tasks_blocked()
            assert not closed.is_set()
            go_on.set()
    assert await auth.store.load("next") == b"stored"


async def test_what_fails_by_mistake_does_not_leave_anybody_waiting(
    holder: TokenHolder, auth: Issuing, caplog: pytest.LogCaptureFixture
) -> None:
    auth.failure = ZeroDivisionError("a mistake")
    with anyio.fail_after(BOUND), pytest.raises(ConnectionLost):
        await refused(holder)
    assert "a mistake" in caplog.text


async def test_the_clock_of_a_call_stands_still_while_somebody_logs_in(holder: TokenHolder, auth: Issuing) -> None:
    held: list[int] = []
    with Call("tools/call", idle=3600.0) as call:

        async def gate() -> None:
            held.append(call._held)

        auth.gate = gate
        await refused(holder)
        assert held == [1] and call._held == 0


async def test_a_login_runs_outside_of_the_call_that_needs_it(holder: TokenHolder, auth: Issuing) -> None:
    seen: list[object] = []

    async def gate() -> None:
        seen.append(current())

    auth.gate = gate
    with Call("tools/call"):
        await refused(holder)
    assert seen == [None]
