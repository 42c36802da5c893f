"""Tokens that are bound to a key (RFC 9449, section 4.3 and 7)."""

from typing import Any

import anyio
import pytest

from backchannel import ConfigurationError, MemoryStateStore, Principal, Server
from backchannel.running import app_at
from backchannel.server.auth import dpop
from backchannel.server.auth.bearer import BearerAuth
from backchannel.server.auth.dpop import DPoP
from backchannel.server.auth.introspection import Introspection
from backchannel.server.auth.refusal import Denied
from tests.server.auth.issuing import (
    INTROSPECT,
    NOW,
    RESOURCE,
    AuthorizationServer,
    challenges,
    key,
    proof,
    request,
)

pytestmark = pytest.mark.anyio
ADA = key("ada")


class Bound:
    """A server that takes bound tokens, and a token of ada's."""

    def __init__(self, **options: Any) -> None:
        self.there = AuthorizationServer()
        self.auth = self.there.auth(dpop=DPoP(**options))
        self.token = self.there.token(cnf={"jkt": ADA.thumbprint()})

    def proof(self, **changes: Any) -> str:
        return proof(ADA, self.token, self.there.clock.now, **changes)

    async def ask(self, given: str | None, token: str | None = None, scheme: str = "DPoP", **options: Any) -> str:
        """ "ada", or the error of the challenge."""
        proofs = {"dpop": given} if given is not None else {}
        answer = await self.auth.admit(*request(token or self.token, scheme=scheme, **proofs, **options))
        return answer.subject if isinstance(answer, Principal) else error_of(answer)


def error_of(denied: Denied) -> str:
    assert denied.status == 401
    return challenges(denied.headers)[0].partition('error="')[2].partition('"')[0]


async def test_a_token_with_its_proof() -> None:
    bound = Bound()
    assert await bound.ask(bound.proof()) == "ada"


@pytest.mark.parametrize(
    "changes",
    [
        {"htm": "GET"},
        {"htm": None},
        {"htu": "https://mcp.test/other"},
        {"htu": "https://other.test/mcp"},
        {"htu": "http://mcp.test/mcp"},
        {"htu": None},
        {"htu": 7},
        {"iat": NOW - 91},
        {"iat": NOW + 31},
        {"iat": None},
        {"iat": "now"},
        {"jti": None},
        {"jti": ""},
        {"jti": 7},
        {"ath": "A" * 43},
        {"ath": None},
        {"header": {"typ": "jwt"}},
        {"header": {"typ": None}},
        {"header": {"jwk": None}},
        {"header": {"jwk": ADA.as_dict(private=True)}},
        {"header": {"jwk": key("eve").as_dict(private=False)}},
        {"header": {"jwk": {"kty": "oct", "k": "AAAA"}}},
        {"header": {"jwk": {"kty": "EC"}}},
    ],
)
async def test_a_proof_of_something_else(changes: dict[str, Any]) -> None:
    bound = Bound()
    assert await bound.ask(bound.proof(**changes)) == "invalid_dpop_proof"


@pytest.mark.parametrize("given", ["", "x", "a.b.c", "x" * 8193, None])
async def test_what_is_no_proof(given: str | None) -> None:
    assert await Bound().ask(given) == "invalid_dpop_proof"


async def test_two_proofs_are_none() -> None:
    bound = Bound()
    assert await bound.ask(f"{bound.proof()}, {bound.proof(jti='2')}") == "invalid_dpop_proof"


async def test_a_proof_is_good_once() -> None:
    bound = Bound()
    first, second = bound.proof(), bound.proof(jti="proof 2")
    assert [await bound.ask(one) for one in (first, first, second)] == ["ada", "invalid_dpop_proof", "ada"]


@pytest.mark.parametrize("htu", ["HTTPS://MCP.TEST/mcp", "https://mcp.test:443/mcp", f"{RESOURCE}?a=b", f"{RESOURCE}/"])
async def test_urls_are_compared_as_urls(htu: str) -> None:
    bound = Bound()
    assert await bound.ask(bound.proof(htu=htu)) == "ada"


async def test_a_proof_for_another_token_or_by_another_key() -> None:
    bound = Bound()
    assert await bound.ask(bound.proof(), bound.there.token(cnf={"jkt": ADA.thumbprint()}, sub="x")) != "x"
    eve = proof(key("eve"), bound.token, NOW)
    assert await bound.ask(eve) == "invalid_token"


async def test_a_bound_token_is_no_bearer_token_wherever_it_goes() -> None:
    bound = Bound()
    denied = await bound.auth.admit(*request(bound.token, dpop=bound.proof()))
    assert isinstance(denied, Denied)
    bearer, dpop = challenges(denied.headers)
    assert dpop.startswith("DPoP resource_metadata=") and bearer.startswith('Bearer error="invalid_token"')
    unaware = await bound.there.auth().admit(*request(bound.token))
    assert isinstance(unaware, Denied) and 'error="invalid_token"' in challenges(unaware.headers)[0]
    mutual = await bound.there.auth().admit(*request(bound.there.token(cnf={"x5t#S256": "AAAA"})))
    assert isinstance(mutual, Denied)


async def test_a_token_that_is_not_bound_is_no_proof_of_anything() -> None:
    bound = Bound()
    plain = bound.there.token()
    assert await bound.ask(proof(ADA, plain, NOW), plain) == "invalid_token"
    assert isinstance(await bound.auth.admit(*request(plain)), Principal)


async def test_the_scheme_that_was_used_comes_first_and_bearer_where_there_was_none() -> None:
    bound = Bound()
    for asked, expected in (
        (request(), ["Bearer", "DPoP"]),
        (request("x"), ["Bearer", "DPoP"]),
        (request("x", scheme="dpop"), ["DPoP", "Bearer"]),
    ):
        denied = await bound.auth.admit(*asked)
        assert isinstance(denied, Denied)
        assert [one.partition(" ")[0] for one in challenges(denied.headers)] == expected
        assert ["error=" in one for one in challenges(denied.headers)] == [
            asked[1].get("authorization") is not None,
            False,
        ]


async def test_where_proofs_are_required_there_is_no_other_scheme() -> None:
    bound = Bound(required=True, algorithms=["ES256"])
    denied = await bound.auth.admit(*request(bound.there.token()))
    assert isinstance(denied, Denied)
    where = 'resource_metadata="https://mcp.test/.well-known/oauth-protected-resource/mcp"'
    assert challenges(denied.headers) == [f'DPoP {where}, algs="ES256"']
    assert await bound.ask(bound.proof()) == "ada"


async def test_an_algorithm_that_is_not_listed() -> None:
    bound = Bound(algorithms=["RS256"])
    assert await bound.ask(bound.proof()) == "invalid_dpop_proof"


async def test_a_nonce_of_the_server() -> None:
    bound = Bound(nonces=100)

    async def wanted(given: str) -> str:
        denied = await bound.auth.admit(*request(bound.token, scheme="DPoP", dpop=given))
        assert isinstance(denied, Denied) and error_of(denied) == "use_dpop_nonce"
        return dict(denied.headers)[b"dpop-nonce"].decode()

    nonce = await wanted(bound.proof())
    assert await bound.ask(bound.proof(nonce=nonce)) == "ada"  # the proof without it did not count
    assert await wanted(bound.proof(nonce="made up", jti="2")) == nonce
    bound.there.clock.now += 100
    bound.token = bound.there.token(cnf={"jkt": ADA.thumbprint()})
    assert await bound.ask(bound.proof(nonce=nonce, jti="3")) == "ada"  # of the period before
    bound.there.clock.now += 100
    assert await wanted(bound.proof(nonce=nonce, jti="4")) != nonce


async def test_replicas_share_nonces_and_what_was_used() -> None:
    store, secret = MemoryStateStore(clock=lambda: NOW), "s" * 32
    one, two = (Bound(nonces=100, secret=secret, store=store) for _ in range(2))
    denied = await one.auth.admit(*request(one.token, scheme="DPoP", dpop=one.proof()))
    assert isinstance(denied, Denied)
    given = two.proof(nonce=dict(denied.headers)[b"dpop-nonce"].decode())
    two.token = one.token
    given = two.proof(nonce=dict(denied.headers)[b"dpop-nonce"].decode())
    assert [await two.ask(given), await one.ask(given)] == ["ada", "invalid_dpop_proof"]


async def test_where_no_more_can_be_remembered_nothing_is_taken() -> None:
    bound = Bound(store=MemoryStateStore(max_size=1, clock=lambda: NOW))
    assert await bound.ask(bound.proof()) == "ada"
    denied = await bound.auth.admit(*request(bound.token, scheme="DPoP", dpop=bound.proof(jti="2")))
    assert isinstance(denied, Denied) and denied.status == 503


async def test_behind_a_mount_the_url_is_the_whole_one() -> None:
    there = AuthorizationServer()
    auth = BearerAuth(issuer="https://as.test", audience=RESOURCE, dpop=DPoP(), **there.reached)
    token = there.token(cnf={"jkt": ADA.thumbprint()})
    for number, path in enumerate(("/mcp", "/api/mcp", "/api/mcp/")):
        given = proof(ADA, token, NOW, htu="https://mcp.test/api/mcp", jti=str(number))
        asked = request(token, scheme="DPoP", path=path, root="/api", dpop=given)
        assert isinstance(await auth.admit(*asked), Principal), path


async def test_tokens_that_are_asked_about_can_be_bound_too() -> None:
    there = AuthorizationServer()
    there.documents[INTROSPECT] = {"active": True, **there.claims(cnf={"jkt": ADA.thumbprint()})}
    auth = there.auth(dpop=DPoP(), introspection=Introspection("me", "secret"))
    given = proof(ADA, "opaque", NOW)
    assert isinstance(await auth.admit(*request("opaque", scheme="DPoP", dpop=given)), Principal)
    assert isinstance(await auth.admit(*request("opaque")), Denied)


@pytest.mark.parametrize(
    "options", [{"max_age": 0}, {"nonces": 0}, {"secret": "short"}, {"store": object()}, {"algorithms": ["HS256"]}]
)
def test_options_that_cannot_work(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        DPoP(**options)


class Store(MemoryStateStore):
    """Fails, or never answers."""

    def __init__(self, hangs: bool = False) -> None:
        super().__init__(clock=lambda: NOW)
        self.hangs = hangs
        self.kept: list[float] = []

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        self.kept.append(ttl)
        if self.hangs:
            await anyio.sleep_forever()
        raise RuntimeError("no store")


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_store_that_fails_lets_nobody_in(hangs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpop, "PATIENCE", 0.01 if hangs else 10.0)
    bound = Bound(store=Store(hangs))
    denied = await bound.auth.admit(*request(bound.token, scheme="DPoP", dpop=bound.proof()))
    assert isinstance(denied, Denied) and denied.status == 503


async def test_a_proof_is_remembered_for_as_long_as_any_replica_may_take_it() -> None:
    """The clock of another one may be `leeway` behind."""
    store = Store()
    bound = Bound(store=store, max_age=60)
    await bound.auth.admit(*request(bound.token, scheme="DPoP", dpop=bound.proof(iat=NOW - 10)))
    assert store.kept == [60 - 10 + 2 * 30]


async def test_a_proof_is_over_when_its_time_is() -> None:
    bound = Bound(max_age=60)
    assert await bound.ask(bound.proof(iat=NOW - 90)) == "invalid_dpop_proof"
    assert await bound.ask(bound.proof(iat=NOW - 89)) == "ada"


def test_processes_have_to_share_what_was_used() -> None:
    class Shared:
        async def add(self, key: str, value: bytes, ttl: float) -> bool:
            return True

    for proofs, workers in ((DPoP(), 1), (DPoP(store=Shared()), 2)):  # type: ignore[arg-type]
        app_at(Server("shop"), "127.0.0.1:0", workers, auth=AuthorizationServer().auth(dpop=proofs))
    with pytest.raises(ConfigurationError, match="workers need a DPoP"):
        app_at(Server("shop"), "127.0.0.1:0", 2, auth=AuthorizationServer().auth(dpop=DPoP()))
