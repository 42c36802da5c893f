"""Hosts and origins."""

import logging

import pytest

from backchannel.protocol.http import Headers
from backchannel.server.http.security import Guard


def status(guard: Guard, **headers: str) -> int:
    refusal = guard.check(Headers([(name.encode(), value.encode()) for name, value in headers.items()]))
    return refusal.status if refusal is not None else 200


@pytest.mark.case("I05")
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *[(host, 200) for host in ("localhost", "LocalHost:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000")],
        *[
            (host, 421)
            for host in ("evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "[::2]:80", "", "::1]")
        ],
        *[(host, 421) for host in ("127.0.0.1:p", "[::1]:p", "[::1]80", "127.0.0.1:80, evil.example", "localhost:8 0")],
        ("localhost, evil.example", 421),
    ],
)
def test_by_default_hosts_are_loopback_on_any_port(host: str, expected: int) -> None:
    assert status(Guard(), host=host) == expected


@pytest.mark.case("I05")
@pytest.mark.parametrize(
    ("allowed", "host", "expected"),
    [
        ("*.example.test", "app.example.test", 200),
        ("*.example.test", "APP.example.test:8443", 200),
        ("*.example.test", "a.b.example.test", 200),
        ("*.example.test", "example.test", 421),
        ("*.example.test", "badexample.test", 421),
        ("*.example.test", "localhost", 421),
        ("Mcp.example.test", "mcp.example.test:1", 200),
        ("mcp.example.test:8000", "mcp.example.test:8000", 200),
        ("mcp.example.test:8000", "mcp.example.test", 421),
        ("mcp.example.test:*", "mcp.example.test:8000", 200),
        ("::1", "[::1]:9", 200),
        ("[fd00::1]:80", "[fd00::1]:80", 200),
        ("[fd00::1]:80", "[fd00::1]:81", 421),
        ("*", "whatever", 200),
        ("*", "whatever:p", 421),
        ("*", "one, two", 421),
    ],
)
def test_allowed_hosts(allowed: str, host: str, expected: int) -> None:
    assert status(Guard([allowed]), host=host) == expected


@pytest.mark.case("I05")
def test_a_refusal_is_logged_with_the_setting_and_the_host(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "backchannel.http"):
        assert status(Guard(), host="app.example.test") == 421
        assert status(Guard(), host="localhost", origin="https://evil.example") == 403
    hosts, origins = (record.getMessage() for record in caplog.records)
    assert "app.example.test" in hosts and "allowed_hosts" in hosts
    assert "https://evil.example" in origins and "allowed_origins" in origins


@pytest.mark.parametrize(
    ("guard", "origin", "expected"),
    [
        (Guard(), "http://localhost:6274", 200),
        (Guard(), "http://[::1]:5173", 200),
        (Guard(), "https://evil.example", 403),
        (Guard(), "null", 403),
        (Guard(), "file://", 403),
        (Guard(), "http://[", 403),
        (Guard(), "chrome-extension://localhost", 403),
        (Guard(["*.example.test"]), "https://app.example.test", 200),
        (Guard(["*.example.test"]), "http://localhost", 403),
        (Guard(["*"]), "http://localhost:3000", 200),
        (Guard(["*"]), "http://rebound.example", 403),
        (Guard(["*"], ["*"]), "http://anywhere.example", 200),
        (Guard(None, ["https://app.example.test/"]), "https://App.example.test", 200),
        (Guard(None, ["https://app.example.test"]), "http://localhost", 403),
        (Guard(None, []), "http://localhost", 403),
    ],
)
def test_origins_are_checked_apart_from_hosts(guard: Guard, origin: str, expected: int) -> None:
    assert status(guard, origin=origin) == expected


def test_who_sends_neither_is_no_browser() -> None:
    assert status(Guard()) == 200
