"""Which hosts may be asked."""

import socket
from typing import Any

import pytest

from backchannel.client.auth import reach
from backchannel.client.auth.reach import Distance, Resolver, check, distance, distance_of
from backchannel.errors import LoginFailed

NOWHERE, MACHINE, NETWORK, INTERNET = Distance


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *((one, INTERNET) for one in ("93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34")),
        *((one, NETWORK) for one in ("10.0.0.1", "172.16.5.4", "192.168.1.1", "100.64.0.1", "fd00::1", "0.1.2.3")),
        *((one, NETWORK) for one in ("::ffff:10.0.0.1", "2002:0a00:0001::1", "198.18.0.1", "240.0.0.1")),
        *((one, NETWORK) for one in ("64:ff9b::10.0.0.1",)),
        *((one, MACHINE) for one in ("64:ff9b::127.0.0.1",)),
        *((one, INTERNET) for one in ("64:ff9b::93.184.216.34",)),
        *((one, MACHINE) for one in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1")),
        *((one, NOWHERE) for one in ("169.254.169.254", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254")),
        *((one, NOWHERE) for one in ("0.0.0.0", "::", "224.0.0.1", "ff02::1")),
    ],
)
def test_how_far_an_address_is(address: str, expected: Distance) -> None:
    assert distance(address) is expected


@pytest.mark.parametrize("least", [MACHINE, NETWORK, INTERNET])
def test_what_is_as_far_as_the_server_or_farther_may_be_asked(least: Distance) -> None:
    for address, far in [("127.0.0.1", MACHINE), ("10.0.0.1", NETWORK), ("93.184.216.34", INTERNET)]:
        if far >= least:
            check(address, "as.test", least)
        else:
            with pytest.raises(LoginFailed, match=r"as.test is at .*OAuth\(trust_network=True\)"):
                check(address, "as.test", least)


@pytest.mark.parametrize("least", list(Distance))
def test_link_local_addresses_may_never_be_asked(least: Distance) -> None:
    with pytest.raises(LoginFailed):
        check("169.254.169.254", "metadata.test", least)


def test_a_trusted_network_may_be_asked_wholly() -> None:
    check("127.0.0.1", "as.test", NOWHERE)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_host_is_as_far_as_its_farthest_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns a name says what its addresses are: a near one beside the real one lets nobody in."""
    addresses: list[str] = []

    async def getaddrinfo(host: str, port: int, **_: Any) -> Any:
        if not addresses:
            raise socket.gaierror(8, "no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    monkeypatch.setattr(reach.anyio, "getaddrinfo", getaddrinfo)
    for given, far in (
        ([], INTERNET),
        (["93.184.216.34", "10.0.0.1", "127.0.0.1", "0.0.0.0"], INTERNET),
        (["10.0.0.1", "127.0.0.1"], NETWORK),
        (["127.0.0.1"], NETWORK),
    ):
        addresses[:] = given
        assert await distance_of("mcp.test", 443) is far
    assert await distance_of("localhost", 443) is MACHINE


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_name_with_one_address_that_is_too_near_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is checked is what the connection is made to, so a name cannot change its meaning in between."""
    resolver = Resolver(INTERNET)

    async def resolve(host: str, port: int, family: Any) -> Any:
        return [{"host": one, "port": port} for one in addresses]

    monkeypatch.setattr(resolver._resolver, "resolve", resolve)
    addresses = ["93.184.216.34"]
    assert [one["host"] for one in await resolver.resolve("as.test", 443)] == addresses
    addresses = ["93.184.216.34", "10.0.0.1"]
    with pytest.raises(LoginFailed, match=r"10\.0\.0\.1"):
        await resolver.resolve("as.test", 443)
    await resolver.close()
