"""`run(server, http=...)` in a process of its own: it serves, and it ends."""

import signal
import socket
from typing import Any

import anyio
import pytest

from backchannel import ConfigurationError, Server, run
from backchannel.server.http.listen import bind, is_loopback, parse
from tests.server.http.processes import child, free_port
from tests.server.http.wire import ASKS, Wire, call, text

anyio_test = pytest.mark.anyio


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:8000", ("127.0.0.1", 8000)),
        ("[::1]:8000", ("::1", 8000)),
        (":8000", ("127.0.0.1", 8000)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("example.test:65535", ("example.test", 65535)),
    ],
)
def test_addresses(address: str, expected: tuple[str, int]) -> None:
    assert parse(address) == expected


@pytest.mark.parametrize("address", ["", "8000", "localhost", "localhost:", "localhost:http", "localhost:65536", ":-1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ConfigurationError, match="HOST:PORT"):
        parse(address)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "192.168.0.1", "example.test", "localhost.example.test")],
)
def test_who_can_reach_an_address(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_an_address_that_is_in_use_is_named() -> None:
    with bind("127.0.0.1", 0) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        port = listener.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}: .*in use"):
            bind("127.0.0.1", port)
    with pytest.raises(ConfigurationError, match="cannot listen on no.such.host.invalid:1"):
        bind("no.such.host.invalid", 1)


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 2},
        {"path": "/x"},
        {"http": "127.0.0.1:0", "workers": 0},
        {"http": "127.0.0.1:0", "workers": 2, "sessions": True},
        {"http": "nowhere"},
        {"http": "127.0.0.1:0", "allowed_hosts": "example.test"},
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        run(Server("s"), **options)


@anyio_test
@pytest.mark.parametrize("workers", [1, 2])
async def test_an_address_in_use_ends_the_process_with_the_reason(workers: int) -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with child(address=address, run={"workers": workers}) as process:
            assert await process.end() == 1
            *_, last = (await process.errors()).strip().splitlines()
            assert "ConfigurationError" in last and address in last and "in use" in last
            assert process.said == []


@anyio_test
@pytest.mark.parametrize("workers", [1, 2])
async def test_a_lifespan_that_fails_at_the_start_ends_the_process(workers: int) -> None:
    async with child(fail="/", workers=workers) as process:
        assert await process.end() == 3
        assert "no database" in await process.errors()


@anyio_test
async def test_run_serves() -> None:
    port = free_port()
    async with child(address=f"127.0.0.1:{port}", run={"path": "/elsewhere"}) as process:
        await process.hear("start")
        there = Wire(port, path="/elsewhere")
        while True:
            try:
                response = await there.modern(call("pid"))
                break
            except ConnectionRefusedError:
                await anyio.sleep(0.01)
        assert text(await response.json()) == str(process.process.pid)
        session = await there.session(ASKS)
        assert (await session.post(call("pid"))).status == 200
        assert (await there.modern(call("pid"), host="app.example.test")).status == 421
        await there.close()


@anyio_test
@pytest.mark.case("I05")
async def test_an_address_that_others_can_reach_serves_any_host_and_no_foreign_origin() -> None:
    port = free_port()
    async with child(address=f"0.0.0.0:{port}") as process:
        await process.hear("start")
        there = Wire(port)
        while True:
            try:
                response = await there.modern(call("pid"), host="app.example.test")
                break
            except ConnectionRefusedError:
                await anyio.sleep(0.01)
        assert response.status == 200
        rebound = {"host": "rebound.example.test", "origin": f"http://rebound.example.test:{port}"}
        assert (await there.modern(call("pid"), **rebound)).status == 403
        await there.close()


@anyio_test
@pytest.mark.rule("R51")
@pytest.mark.case("G08")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_ends_it_with_open_streams_calls_and_questions(number: int, code: int) -> None:
    async with child() as process:
        there = process.wire
        sessions = [await there.session(ASKS) for _ in range(3)]
        streams = [await session.http("GET") for session in sessions]
        streams.append(await sessions[0].post(call("sleep", token="t")))
        streams.append(await sessions[1].post(call("ask")))
        streams.append(await there.modern(call("sleep", token="t")))
        for stream in streams:
            await stream.event()
        idle = await there.connect()
        process.signal(number)
        for stream in streams:
            while await stream.event() is not None:
                pass
        assert await idle.reader.read() == b""
        assert await process.end() == code
        assert process.said.count("cancelled") == 2
        assert process.said[-1].startswith("end ")
        assert await process.errors() == ""


@anyio_test
@pytest.mark.case("G08")
async def test_calls_get_the_grace_and_a_second_signal_takes_it_back() -> None:
    async with child(grace=600) as process:
        there = process.wire
        session = await there.session(ASKS)
        listening = await session.http("GET")
        sleeping = await there.modern(call("sleep", token="t"))
        await sleeping.message()
        process.signal(signal.SIGINT)
        while await listening.event() is not None:
            pass
        event = await sleeping.event()
        assert event is not None and event.comment, "it goes on"
        process.signal(signal.SIGINT)
        assert await process.end() == 130
        assert process.said[-2:] == ["cancelled", f"end {process.process.pid}"]


@anyio_test
@pytest.mark.case("G08")
@pytest.mark.parametrize(("tool", "signals", "grace"), [("block_a_thread", 1, 0.1), ("block_the_loop", 2, 600)])
async def test_a_handler_that_blocks_does_not_keep_it_alive(tool: str, signals: int, grace: float) -> None:
    async with child(grace=grace) as process:
        response = await process.wire.modern(call(tool, token="t"))
        await response.message()
        if tool == "block_the_loop":
            await process.hear("blocking")
        for _ in range(signals):
            process.signal(signal.SIGINT)
            await anyio.sleep(0.1)  # two signals at once would be one
        await process.end()
        assert "did not stop in time" in await process.errors()
