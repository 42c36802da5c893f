"""cli/load.py and cli/targets.py: how a Server is named, and what is said where there is none."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backchannel import Server, StdioServer
from backchannel.cli.load import load, served, split
from backchannel.cli.targets import target
from backchannel.errors import ConfigurationError
from backchannel.server.http.app import HttpApp

SOURCE = """
from backchannel import Server
import neighbour
server = Server("one")
class Box:
    inner = Server("two")
number = 3
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with modules in it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "place_one.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "folder" / "neighbour.py").write_text("", encoding="utf-8")
    (tmp_path / "place_two.py").write_text("from backchannel import Server\nmine = Server('three')\n", encoding="utf-8")
    (tmp_path / "place_bad.py").write_text("import no_such_dependency\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("folder/place_one.py", "one"),
        ("folder/place_one.py:server", "one"),
        ("folder/place_one.py:Box.inner", "two"),
        ("place_two:mine", "three"),
        ("place_two.py:mine", "three"),
    ],
)
def test_a_server_is_found(given: str, name: str) -> None:
    assert load(given).name == name


def test_an_absolute_path(place: Path) -> None:
    assert load(f"{place / 'place_two.py'}:mine").name == "three"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("no_such_module:server", "there is no module 'no_such_module'"),
        ("place_two.deeper:server", "there is no module 'place_two.deeper'"),
        ("no_such_file.py", "there is no file 'no_such_file.py'"),
        ("place_two.py", "place_two.py has no 'server': name the variable"),
        (
            "folder/place_one.py:number",
            "folder/place_one.py:number is not a backchannel.Server or an app of http_app(), but of type int",
        ),
        ("folder/place_one.py:Server", "is not a backchannel.Server or an app of http_app(), but of type type"),
        (".relative:server", "is no name of a module"),
        ("", "is no name of a module"),
    ],
)
def test_what_is_missing_is_said(given: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        load(given)


def test_an_app_is_served_and_not_called(place: Path) -> None:
    source = "from backchannel import Server, http_app\nserver = Server('five')\napp = http_app(server)\n"
    (place / "place_app.py").write_text(source, encoding="utf-8")
    app = served("place_app.py:app")
    assert isinstance(app, HttpApp) and app.server.name == "five"
    with pytest.raises(
        ConfigurationError, match="backchannel run place_app.py:app --http HOST:PORT, or name its Server"
    ):
        load("place_app.py:app")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import no_such_dependency", "place_bad.py:1: ModuleNotFoundError: No module named 'no_such_dependency'"),
        ("\n\nx = (1", r"place_bad.py:3: SyntaxError: '\(' was never closed"),
        ("import json\njson.loads('no')", "place_bad.py:2: JSONDecodeError: Expecting value"),
        (
            "from backchannel import Server\nserver = Server('a')\nserver.add_tool(3)",
            "place_bad.py:3: ConfigurationError: ",
        ),
    ],
)
@pytest.mark.parametrize("given", ["place_bad.py", "place_bad:server"])
def test_a_failure_inside_the_module_has_its_line(place: Path, given: str, source: str, why: str) -> None:
    (place / "place_bad.py").write_text(source, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=f"^cannot import place_bad.*: {why}"):
        load(given)


def test_a_file_named_like_a_loaded_module_does_not_replace_it(place: Path) -> None:
    (place / "json.py").write_text("from backchannel import Server\nserver = Server('four')\n", encoding="utf-8")
    import json

    assert load("json.py").name == "four"
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("given", "where", "name"),
    [
        ("a.b:c", "a.b", "c"),
        ("a.py:c", "a.py", "c"),
        ("a.py", "a.py", "server"),
        ("a:", "a", "server"),
        (r"C:\x\a.py", r"C:\x\a.py", "server"),
        (r"C:\x\a.py:c", r"C:\x\a.py", "c"),
    ],
)
def test_names_are_split(given: str, where: str, name: str) -> None:
    assert split(given) == (where, name)


def test_targets(place: Path) -> None:
    assert target("http://127.0.0.1:8000/mcp") == "http://127.0.0.1:8000/mcp"
    assert target("python 'a b.py' -v") == StdioServer("python", "a b.py", "-v")
    assert target(sys.executable) == StdioServer(sys.executable)
    found = target("folder/place_one.py")
    assert isinstance(found, Server) and found.name == "one"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("nothing", "'nothing' is no server: give a URL"),
        ("nothing:here", "there is no module 'nothing'"),
        ("an 'open quote", "is no command line"),
    ],
)
def test_a_target_that_is_none(given: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        target(given)
