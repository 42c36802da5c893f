"""Which hosts a server may have its client send requests to (Security Best Practices, Server-Side Request Forgery).

How it works: a server names URLs, such as that of its authorization server. One on the internet must not reach into the
client's own network that way. So a host may be asked if it is no nearer than the MCP server itself: this machine is
nearer than a private network, which is nearer than the internet. Link-local addresses, where clouds keep their
secrets, may never be asked. What is checked is the address that the connection is then made to.
"""

from __future__ import annotations

import enum
import ipaddress
import socket

import anyio
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver

from ...errors import LoginFailed
from .well_known import is_loopback

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # of IPv4 addresses (RFC 6052)


class Distance(enum.IntEnum):
    """How far away a host is."""

    NOWHERE = -1
    MACHINE = 0
    NETWORK = 1
    INTERNET = 2


def distance(address: str) -> Distance:
    """Of an IP address."""
    ip: Address = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ipaddress.IPv4Address(int(ip) % 2**32) if ip in _NAT64 else None
        ip = ip.ipv4_mapped or ip.sixtofour or inner or ip
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified:
        return Distance.NOWHERE
    if ip.is_loopback:
        return Distance.MACHINE
    return Distance.INTERNET if ip.is_global else Distance.NETWORK


async def distance_of(host: str, port: int) -> Distance:
    """Of a host: that of its farthest address, since whoever owns a name can give it near ones too; so a name is never
    this machine, but for localhost. One that cannot be found is taken to be on the internet."""
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return Distance.INTERNET
    farthest = max((distance(str(sockaddr[0])) for *_, sockaddr in found), default=Distance.INTERNET)
    return farthest if is_loopback(host) else max(farthest, Distance.NETWORK)


def check(address: str, host: str, least: Distance) -> None:
    """Raises: LoginFailed for an address that is nearer than `least`, or that may never be asked."""
    if distance(address) < max(least, Distance.MACHINE):
        raise LoginFailed(
            f"{host} is at {address}, nearer than the MCP server is, so nothing is asked of it; "
            "if it is trusted all the same, give OAuth(trust_network=True)"
        )


class Resolver(AbstractResolver):
    """Finds the addresses of hosts, but for those that may not be asked."""

    def __init__(self, least: Distance):
        self._least = least
        self._resolver = DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """All of the host's addresses. Raises: LoginFailed, OSError."""
        found = await self._resolver.resolve(host, port, family)
        for one in found:
            check(one["host"], host, self._least)
        return found

    async def close(self) -> None:
        """Nothing can be resolved any more."""
        await self._resolver.close()
