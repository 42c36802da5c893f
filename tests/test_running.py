"""running.py: what `run` and `http_app` take."""

from typing import Any

import pytest

from backchannel import Client, ConfigurationError, MemoryStateStore, RequestState, Server, http_app, run


@pytest.mark.parametrize("what", ["server", object(), None, Server, lambda: Server("s")])
@pytest.mark.parametrize("function", [run, http_app])
def test_what_is_no_server_is_named_by_its_type(function: Any, what: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        function(what)
    assert str(caught.value).startswith(f"{function.__name__}() takes a backchannel.Server, not {type(what).__name__}")
    assert ("backchannel run" in str(caught.value)) is (what == "server")


@pytest.mark.rule("R97")
@pytest.mark.parametrize("options", [{"workers": 2}, {"path": "/x"}, {"verify": None}])
def test_options_of_http_without_http(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="is for HTTP only: give http='HOST:PORT' too"):
        run(Server("s"), **options)


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
