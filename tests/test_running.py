"""running.py: what `run` and `http_app` take."""

import re
from typing import Any

import pytest

from backchannel import (
    BearerAuth,
    Client,
    ConfigurationError,
    DPoP,
    MemoryStateStore,
    RequestState,
    Server,
    http_app,
    run,
)


@pytest.mark.parametrize("what", ["server", object(), None, Server, lambda: Server("s")])
@pytest.mark.parametrize("function", [run, http_app])
def test_what_is_no_server_is_named_by_its_type(function: Any, what: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        function(what)
    also = " or an app of http_app()" if function is run else ""
    start = f"{function.__name__}() takes a backchannel.Server{also}, not {type(what).__name__}"
    assert str(caught.value).startswith(start)
    assert ("backchannel run" in str(caught.value)) is (what == "server")


@pytest.mark.rule("R97")
@pytest.mark.parametrize("options", [{"workers": 2}, {"path": "/x"}, {"verify": None}])
def test_options_of_http_without_http(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="is for HTTP only: give http='HOST:PORT' too"):
        run(Server("s"), **options)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "is for HTTP: give http='HOST:PORT' too, or run its Server"),
        ({"http": "127.0.0.1:0", "path": "/x"}, "the app is made already: give path to http_app()"),
        ({"http": "127.0.0.1:0", "workers": 2}, "sessions need workers=1, or a fleet="),
        ({"http": "127.0.0.1:0", "workers": 0}, "workers is a whole number above 0"),
        ({"http": "here"}, "is no address"),
    ],
)
def test_an_app_is_run_as_it_is(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        run(http_app(Server("s")), **options)


def test_an_app_is_listened_with(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr("backchannel.server.http.listen.listen", lambda *given, **more: served.append((given, more)))
    app = http_app(Server("s"), path="/x", sessions=False)
    run(app, http="0.0.0.0:8000", workers=2)
    assert served == [((app, "0.0.0.0:8000"), {"workers": 2})]


def test_an_app_for_several_processes_shares_its_proofs() -> None:
    app = http_app(Server("s"), sessions=False, auth=BearerAuth(issuer="https://a.test", audience="x", dpop=DPoP()))
    with pytest.raises(ConfigurationError, match="a proof of DPoP is good once"):
        run(app, http="127.0.0.1:0", workers=2)


def test_a_list_that_is_a_text() -> None:
    with pytest.raises(ConfigurationError, match="allowed_hosts is a list"):
        http_app(Server("s"), allowed_hosts="example.com")


@pytest.mark.parametrize("what", [object(), None, 5, "localhost:8000", {}, {"url": 5}])
def test_a_client_of_nothing_fails_where_it_is_made(what: Any) -> None:
    with pytest.raises(ConfigurationError):
        Client(what)


def test_a_store_in_memory_is_not_shared_by_workers() -> None:
    server = Server("s", state=RequestState(store=MemoryStateStore()))
    with pytest.raises(ConfigurationError, match="one process"):
        run(server, http="127.0.0.1:0", workers=2)


@pytest.mark.parametrize("address", [8000, ("127.0.0.1", 8000), "8000", b":80"])
def test_what_is_no_address(address: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=f"{re.escape(repr(address))} is no address .*: give HOST:PORT, such as"
    ):
        run(Server("s"), http=address)


@pytest.mark.parametrize("workers", [0, -1, "4", 2.5])
def test_what_is_no_number_of_workers(workers: Any) -> None:
    with pytest.raises(ConfigurationError, match="workers is a whole number above 0"):
        run(Server("s"), http="127.0.0.1:0", workers=workers)


@pytest.mark.parametrize("function", [http_app, lambda server, **options: run(server, http="127.0.0.1:0", **options)])
def test_an_option_that_is_not_there(function: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"http_app\(\) has no option 'alowed_hosts'; it has path, allowed_hosts"
    ):
        function(Server("s"), alowed_hosts=["x"])


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"allowed_hosts": ["https://mcp.example.com"]}, "without scheme"),
        ({"allowed_hosts": [5]}, "allowed_hosts is a list of str"),
        ({"allowed_origins": "https://a"}, "allowed_origins is a list, such as"),
    ],
)
def test_hosts_and_origins_are_checked(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ConfigurationError, match=wanted):
        http_app(Server("s"), **options)
