"""The identifier of the server, and where its metadata is."""

import json
from typing import Any

import pytest

from backchannel import ConfigurationError
from backchannel.protocol.http import Headers
from backchannel.server.auth.bearer import BearerAuth
from backchannel.server.auth.dpop import DPoP
from backchannel.server.auth.resource import Resource, canonical
from tests.server.auth.issuing import ISSUER, RESOURCE, AuthorizationServer, request

KNOWN = "/.well-known/oauth-protected-resource"


def ask(auth: BearerAuth, path: str, endpoint: str = "/mcp", **options: Any) -> dict[str, Any] | None:
    document = auth.metadata(*request(path=path, method="GET", **options), endpoint)
    return json.loads(document) if document is not None else None


def free(**options: Any) -> BearerAuth:
    return BearerAuth(issuer=ISSUER, audience=RESOURCE, **options)


def test_the_metadata() -> None:
    auth = AuthorizationServer().auth(
        scopes=["write", "read"], metadata={"resource_name": "Shop"}, dpop=DPoP(algorithms=["ES256"])
    )
    assert ask(auth, f"{KNOWN}/mcp") == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "scopes_supported": ["read", "write"],
        "bearer_methods_supported": ["header"],
        "dpop_signing_alg_values_supported": ["ES256"],
        "dpop_bound_access_tokens_required": False,
        "resource_name": "Shop",
    }
    assert ask(free(), f"{KNOWN}/mcp") == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
    }


@pytest.mark.parametrize(
    ("path", "root", "resource"),
    [
        (f"{KNOWN}/mcp", "", "https://mcp.test/mcp"),
        (f"{KNOWN}/mcp/", "", "https://mcp.test/mcp"),
        (KNOWN, "", "https://mcp.test/mcp"),
        (f"{KNOWN}/other", "", None),
        (f"{KNOWN}mcp", "", None),
        ("/other", "", None),
        # Mounted at /api, and asked there: with its path in the path, and without.
        (f"/api{KNOWN}/mcp", "/api", "https://mcp.test/api/mcp"),
        (f"{KNOWN}/mcp", "/api", "https://mcp.test/api/mcp"),
        (f"/api{KNOWN}", "/api", "https://mcp.test/api/mcp"),
        # Mounted a second time, where clients look that do not read challenges.
        (f"{KNOWN}/api/mcp", KNOWN, "https://mcp.test/api/mcp"),
    ],
)
def test_which_resource_a_request_asks_for(path: str, root: str, resource: str | None) -> None:
    document = ask(free(), path, root=root)
    assert (document["resource"] if document else None) == resource


def test_a_server_at_the_root_of_its_host() -> None:
    document = ask(free(), KNOWN, endpoint="/")
    assert document is not None and document["resource"] == "https://mcp.test"
    assert ask(free(), f"{KNOWN}/mcp", endpoint="/") is None


def test_a_server_at_the_root_of_an_app_that_is_mounted() -> None:
    for path, root in (("/mcp" + KNOWN, "/mcp"), (f"{KNOWN}/mcp", KNOWN)):
        document = ask(free(), path, endpoint="/", root=root)
        assert document is not None and document["resource"] == "https://mcp.test/mcp"
    asked = request(path="/mcp", root="/mcp")
    assert Resource(None).url(*asked) == "https://mcp.test/mcp"
    assert Resource(None).metadata_url(*asked) == f"https://mcp.test/mcp{KNOWN}"


@pytest.mark.parametrize(
    ("public", "path"),
    [
        ("https://public.test/mcp", f"{KNOWN}/mcp"),
        ("https://public.test/mcp", KNOWN),
        ("https://public.test/tools/mcp", f"{KNOWN}/tools/mcp"),
        ("https://public.test/tools/mcp", f"{KNOWN}/mcp"),
        ("https://public.test/tools", f"{KNOWN}/tools"),
        ("https://public.test", KNOWN),
    ],
)
def test_one_that_is_given_is_said_as_it_is_whatever_the_request_says(public: str, path: str) -> None:
    document = ask(free(resource=public), path, host="inner:8000")
    assert document is not None and document["resource"] == public


@pytest.mark.parametrize(
    ("pinned", "path", "root", "expected"),
    [
        (None, "/mcp", "", f"https://mcp.test{KNOWN}/mcp"),
        (None, "/mcp/", "", f"https://mcp.test{KNOWN}/mcp"),
        (None, "/", "", f"https://mcp.test{KNOWN}"),
        (None, "/api/mcp", "/api", f"https://mcp.test/api{KNOWN}/mcp"),
        (None, "/mcp", "/api", f"https://mcp.test/api{KNOWN}/mcp"),
        (None, "/mcp", "/m", f"https://mcp.test/m{KNOWN}/mcp"),
        ("https://public.test/mcp", "/mcp", "", f"https://public.test{KNOWN}/mcp"),
        ("https://public.test", "/", "", f"https://public.test{KNOWN}"),
        ("https://public.test/api/mcp", "/api/mcp", "/api", f"https://public.test/api{KNOWN}/mcp"),
        ("https://public.test/tools/mcp", "/mcp", "", f"https://public.test/tools{KNOWN}/mcp"),
        ("https://public.test/tools", "/mcp", "", f"https://public.test{KNOWN}/tools"),
    ],
)
def test_where_the_metadata_is_for_clients(pinned: str | None, path: str, root: str, expected: str) -> None:
    assert Resource(pinned).metadata_url(*request(path=path, root=root)) == expected


@pytest.mark.parametrize("host", ['a"b', "a b", "a/b", "", "ä.test", "a,b"])
def test_a_strange_host_is_not_repeated(host: str) -> None:
    scope, _ = request()
    scope["server"] = ("10.0.0.1", 8000)
    headers = Headers([(b"host", host.encode("latin-1"))])
    assert Resource(None).url(scope, headers) == "https://10.0.0.1:8000/mcp"
    scope["server"] = None
    assert Resource(None).url(scope, headers) == "https://localhost/mcp"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTPS://A.Test/Path/", "https://a.test/Path"),
        ("https://a.test:443", "https://a.test"),
        ("http://a.test:80/x/?Y#z", "http://a.test/x?Y#z"),
        ("https://a.test?y", "https://a.test?y"),
        ("http\u017f://A.test", "http\u017f://A.test"),
        ("http://a.test:443/x", "http://a.test:443/x"),
        ("https://[::1]:443/x", "https://[::1]/x"),
        ("api://Shop/", "api://Shop/"),
        ("https://", "https://"),
        ("my-api", "my-api"),
        ("My-Api/", "My-Api/"),
    ],
)
def test_urls_that_are_the_same(url: str, expected: str) -> None:
    assert canonical(url) == expected


def test_what_a_client_puts_into_a_path_is_said_encoded() -> None:
    """A router may give what was in the place of a variable, decoded, as where the app is mounted."""
    asked = request(path="/mcp", root='/a\r\nset-cookie: b"ü%')
    encoded = "/a%0D%0Aset-cookie:%20b%22%C3%BC%25"
    assert Resource(None).url(*asked) == f"https://mcp.test{encoded}/mcp"
    assert Resource(None).metadata_url(*asked) == f"https://mcp.test{encoded}{KNOWN}/mcp"
    document = ask(free(), f"{KNOWN}/mcp", root="/ü")
    assert document is not None and document["resource"] == "https://mcp.test/%C3%BC/mcp"


def test_what_is_no_url_is_no_resource() -> None:
    with pytest.raises(ConfigurationError, match="URL"):
        Resource("https://[")
