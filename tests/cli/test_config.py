"""cli/config.py: an entry of a file with mcpServers as the target of a command."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from backchannel import StdioServer
from backchannel.cli.config import entry
from backchannel.cli.home import VARIABLE
from backchannel.cli.options import Options
from backchannel.cli.targets import target
from backchannel.cli.terminal import Terminal
from backchannel.errors import ConfigurationError
from tests.cli.programs import COMMAND, backchannel, environment, served

SERVER = """
import os
from backchannel import Server
server = Server("s")

@server.tool
def shown(name: str) -> str:
    return os.environ.get(name, "none")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(place: Path, content: Any, name: str = "mcp.json") -> str:
    (place / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return name


def test_an_entry_by_its_name(place: Path) -> None:
    entries = {"one": {"command": "a"}, "two:b": {"url": "http://x"}}
    for section in ("mcpServers", "servers"):
        path = written(place, {section: entries, "inputs": []})
        assert entry(path, "one") == {"command": "a"} == target("mcp.json:one")
        assert entry(path, "two:b") == {"url": "http://x"} == target(f"{place}/mcp.json:two:b")


def test_the_only_entry_needs_no_name(place: Path) -> None:
    assert target(written(place, {"mcpServers": {"one": {"command": "a"}}}, "my servers.json")) == {"command": "a"}


def test_variables_are_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "secret")
    monkeypatch.delenv("NO_KEY", raising=False)
    given = {"command": "${NO_KEY:-x}", "args": ["-k", "${A_KEY}"], "env": {"K": "${env:A_KEY}!"}, "cwd": "${NO_KEY:-}"}
    path = written(place, {"mcpServers": {"one": given | {"spare": 1, "asked": "${input:key}"}}})
    assert entry(path, None) == {
        "command": "x",
        "args": ["-k", "secret"],
        "env": {"K": "secret!"},
        "cwd": "",
        "spare": 1,
        "asked": "${input:key}",
    }
    path = written(place, {"mcpServers": {"one": {"url": "http://${NO_KEY}"}}})
    with pytest.raises(ConfigurationError, match="NO_KEY is not set"):
        entry(path, None)


@pytest.mark.parametrize(
    ("content", "given", "why"),
    [
        ({"mcpServers": {"a": {}, "b": {}}}, "mcp.json", "which server of mcp.json? mcp.json:a, mcp.json:b"),
        ({"mcpServers": {"a": {}, "b": {}}}, "mcp.json:c", "no server 'c': mcp.json:a, mcp.json:b"),
        ({"mcpServers": {}}, "mcp.json", "it has none"),
        ({"mcpServers": {"a": 5}}, "mcp.json:a", "'a' is no object"),
        ({"other": {}}, "mcp.json:a", "has no mcpServers or servers"),
        ([], "mcp.json:a", "has no mcpServers or servers"),
        ("{", "mcp.json:a", "mcp.json is no JSON"),
        ("", "other.json:a", "cannot read 'other.json': No such file"),
    ],
)
def test_what_is_wrong_is_said(place: Path, content: Any, given: str, why: str) -> None:
    written(place, content)
    with pytest.raises(ConfigurationError) as caught:
        target(given)
    assert why in str(caught.value)


def test_a_command_line_that_ends_in_json_is_a_command_line(place: Path) -> None:
    assert target("python server.py settings.json") == StdioServer("python", "server.py", "settings.json")


def test_variables_and_headers_of_the_command_line_are_added(place: Path) -> None:
    path = written(
        place, {"mcpServers": {"a": {"command": "x", "env": {"A": "1", "B": "1"}}, "b": {"url": "http://x"}}}
    )
    assert target(f"{path}:a", {"B": "2"}) == {"command": "x", "env": {"A": "1", "B": "2"}}
    assert target(f"{path}:b", headers={"H": "1"}) == {"url": "http://x"}  # the Client adds them
    with pytest.raises(ConfigurationError, match="--env is for a command"):
        target(f"{path}:b", {"B": "2"})
    with pytest.raises(ConfigurationError, match="--header is for a server at a URL"):
        target(f"{path}:a", headers={"H": "1"})
    (place / "s.py").write_text(SERVER, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="--header is for a server at a URL"):
        target("s.py", headers={"H": "1"})


def test_headers_of_an_entry_that_are_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(place))
    path = written(place, {"mcpServers": {"a": {"url": "http://x", "headers": 5}}})
    with pytest.raises(ConfigurationError, match='"headers" of an mcpServers entry is an object'):
        Options().client(f"{path}:a", Terminal())


def test_calling_what_a_configuration_names(place: Path) -> None:
    (place / "s.py").write_text(SERVER, encoding="utf-8")
    launched = {
        "command": sys.executable,
        "args": [*COMMAND[1:], "run", "s.py"],
        "env": {"PYTHONPATH": environment()["PYTHONPATH"], "A_KEY": "${SET_HERE:-from the file}"},
    }
    with served("s.py", cwd=place) as url:
        written(place, {"mcpServers": {"launched": launched, "there": {"type": "http", "url": url}}})
        done = backchannel("call", "mcp.json:launched", "shown", "name=A_KEY", cwd=place)
        assert (done.returncode, done.stdout) == (0, "from the file\n"), done.stderr
        done = backchannel("call", "mcp.json:there", "shown", "name=A_KEY", cwd=place)
        assert (done.returncode, done.stdout) == (0, "none\n"), done.stderr
    done = backchannel("call", "mcp.json:neither", "shown", cwd=place)
    assert done.returncode == 2 and "mcp.json:launched, mcp.json:there" in done.stderr
