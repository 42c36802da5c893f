"""Tokens for a workload, against an authorization server that trusts its platform."""

import pytest

from backchannel.client.auth.workload import JWT_BEARER, WorkloadIdentity
from backchannel.errors import ConfigurationError, LoginFailed
from backchannel.testing.auth.server import AuthServer
from tests.client.auth.world import SERVER, World, refused


class Platform:
    """Issues the JWTs of a workload, each for one use."""

    def __init__(self, world: World):
        self._issuer = AuthServer("https://platform.test", clock=lambda: world.now)
        world.auth.trust(self._issuer)
        world.auth.add_client("workload")
        self._audience = world.auth.issuer
        self.issued: list[str] = []

    def __call__(self) -> str:
        jwt = self._issuer.keys.sign(
            {
                "iss": self._issuer.issuer,
                "sub": "spiffe://platform.test/agent",
                "aud": self._audience,
                "exp": int(self._issuer.now()) + 300,
                "iat": int(self._issuer.now()),
                "jti": str(len(self.issued)),
            }
        )
        self.issued.append(jwt)
        return f"{jwt}\n"  # as from a file


def test_what_the_platform_has_issued_gets_a_token() -> None:
    world = World()
    platform = Platform(world)
    token = world.run(WorkloadIdentity(platform, client_id="workload").obtain(refused()))
    assert token.access_token
    assert world.posted == [
        {"grant_type": JWT_BEARER, "assertion": platform.issued[0], "resource": SERVER, "client_id": "workload"}
    ]


def test_each_token_has_an_assertion_of_its_own() -> None:
    world = World()
    platform = Platform(world)
    identity = WorkloadIdentity(platform, client_id="workload")
    token = world.run(identity.obtain(refused()))
    world.run(identity.obtain(refused(token=token)))
    assert [sent["assertion"] for sent in world.posted] == platform.issued
    assert len(platform.issued) == 2


def test_a_refused_assertion_is_not_sent_again_nor_is_another_grant_tried() -> None:
    world = World()
    world.auth.add_client("workload")
    with pytest.raises(LoginFailed, match="invalid_grant") as refusal:
        world.run(WorkloadIdentity("not.trusted.atall", client_id="workload").obtain(refused()))
    assert "not.trusted" not in str(refusal.value)
    assert [sent["grant_type"] for sent in world.posted] == [JWT_BEARER]


def test_a_workload_needs_no_client_id() -> None:
    world = World()
    with pytest.raises(LoginFailed):  # by this server, which wants one
        world.run(WorkloadIdentity("a.b.c").obtain(refused()))
    assert "client_id" not in world.posted[0]


def test_nothing_is_no_assertion() -> None:
    with pytest.raises(ConfigurationError, match="assertion is a text, or a function"):
        WorkloadIdentity("")
