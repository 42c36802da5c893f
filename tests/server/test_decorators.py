"""The decorators of a server, given what they do not take."""

from typing import Any

import pytest

from backchannel import ConfigurationError, Server


@pytest.mark.parametrize("kind", ["tool", "prompt"])
def test_a_name_goes_by_its_keyword(kind: str) -> None:
    decorator: Any = getattr(Server("s"), kind)
    with pytest.raises(ConfigurationError) as caught:
        decorator("weather")
    assert str(caught.value) == f"a {kind} gets its name by keyword: write @server.{kind}(name='weather')"


@pytest.mark.parametrize("kind", ["tool", "prompt"])
def test_a_function_with_options_has_them(kind: str) -> None:
    server = Server("s")

    def weather() -> str:
        return "fine"

    decorator: Any = getattr(server, kind)
    assert decorator(weather, name="other") is weather
    assert list((server.tools if kind == "tool" else server.prompts).handlers) == ["other"]


@pytest.mark.parametrize("what", [3, None])
def test_what_is_no_function(what: Any) -> None:
    server = Server("s")
    with pytest.raises(ConfigurationError):
        server.add_tool(what)
    with pytest.raises(ConfigurationError):
        server.add_prompt(what)


def test_a_resource_has_a_uri() -> None:
    decorator: Any = Server("s").resource
    with pytest.raises(ConfigurationError, match=r'write @server.resource\("note://\{id\}"\)'):
        decorator(lambda: "")
