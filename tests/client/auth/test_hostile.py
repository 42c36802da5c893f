"""Whatever servers answer, a flow ends with a token or with an error of ours, and asks nothing without https."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from backchannel.client.auth.auth import Demand, Why
from backchannel.client.auth.challenge import challenge_of
from backchannel.client.auth.oauth import OAuth
from backchannel.client.auth.steps import Fetch, Fetched
from backchannel.errors import BackchannelError
from tests.client.auth.world import METADATA, SERVER, World, fetched

URLS = st.sampled_from(
    [
        *("https://auth.test", "https://auth.test/", "https://auth.test/t1", SERVER, "https://mcp.test", METADATA),
        *("http://auth.test", "https://[", "https://a:b@auth.test", "//x", "", "javascript:alert(1)", "https://a b"),
        *("https://auth.test:0", "https://auth.test:99999", "https://ü.test", "http://169.254.169.254/", "a\r\nb"),
    ]
)
TEXTS = URLS | st.text(max_size=5) | st.sampled_from(["Bearer", "none", "S256", "client_secret_basic", "read"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
GOOD: dict[str, Any] = {
    "resource": SERVER,
    "authorization_servers": ["https://auth.test"],
    "scopes_supported": ["read"],
    "issuer": "https://auth.test",
    "authorization_endpoint": "https://auth.test/authorize",
    "token_endpoint": "https://auth.test/token",
    "registration_endpoint": "https://auth.test/register",
    "code_challenge_methods_supported": ["S256"],
    "client_id": "c",
    "client_secret": "s",
    "client_secret_expires_at": 0,
    "token_endpoint_auth_method": "client_secret_post",
    "access_token": "t",
    "token_type": "Bearer",
    "expires_in": 60,
    "refresh_token": "r",
}
"""All documents in one: each reader takes what it knows."""
DOCUMENTS = st.dictionaries(st.sampled_from(sorted(GOOD)), JSON, max_size=2).map(lambda wrong: {**GOOD, **wrong})
MUTATED = st.dictionaries(st.sampled_from(sorted(GOOD)), JSON, min_size=1, max_size=2).map(lambda one: {**GOOD, **one})
WRONG = st.one_of(
    st.builds(fetched, st.sampled_from([200, 201]), MUTATED),
    st.builds(fetched, st.sampled_from([200, 204, 302, 400, 401, 404, 418, 500]), st.binary(max_size=20) | JSON),
    st.builds(fetched, st.just(400), st.fixed_dictionaries({"error": TEXTS, "error_description": JSON})),
)
HEADERS = st.builds('Bearer resource_metadata="{}", scope="{}"'.format, TEXTS, TEXTS) | st.text(max_size=20)
ANSWERS = st.dictionaries(st.sampled_from(["code", "iss", "error", "error_description"]), TEXTS, max_size=4)


class Hostile(World):
    """Most is well; now and then something is as `draw` would have it."""

    def __init__(self, data: st.DataObject):
        super().__init__()
        self._data = data

    def mostly(self, good: Any, wrong: st.SearchStrategy[Any]) -> Any:
        return self._data.draw(wrong) if self._data.draw(st.integers(0, 7)) == 7 else good

    def _fetch(self, step: Fetch) -> Fetched:
        assert step.url.startswith("https://") and step.url.isprintable() and " " not in step.url
        found: Fetched = self.mostly(fetched(200, GOOD), WRONG)
        return found

    def _visit(self, url: str) -> None:
        assert url.startswith("https://")
        self.answers = [{"state": self.asked["state"], **self.mostly({"code": "c"}, ANSWERS)}]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_servers_answer(data: st.DataObject) -> None:
    world = Hostile(data)
    token = None
    for why in (Why.REFUSED, Why.EXPIRES, Why.SCOPE):
        demand = Demand(SERVER, why, challenge_of(world.mostly("Bearer", HEADERS)), token)
        world.now += 100
        try:
            token = world.run(OAuth().obtain(demand))
            assert token.access_token.isprintable() and demand.token != token
        except BackchannelError as error:
            assert str(error).isprintable()
