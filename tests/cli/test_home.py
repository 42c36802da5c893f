"""Where logins are kept, on each system."""

import sys
from pathlib import Path

import pytest

from backchannel.cli.home import home


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BACKCHANNEL_HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {}, "/home/me/.config/backchannel"),
        ("linux", {"XDG_CONFIG_HOME": "/etc/me"}, "/etc/me/backchannel"),
        ("linux", {"XDG_CONFIG_HOME": "relative"}, "/home/me/.config/backchannel"),
        ("darwin", {}, "/home/me/Library/Application Support/backchannel"),
        ("win32", {}, "/home/me/AppData/Roaming/backchannel"),
        ("win32", {"APPDATA": "/roaming"}, "/roaming/backchannel"),
        ("win32", {"APPDATA": "/roaming", "BACKCHANNEL_HOME": "/mine"}, "/mine"),
        ("linux", {"XDG_CONFIG_HOME": "/etc/me", "BACKCHANNEL_HOME": "/mine"}, "/mine"),
    ],
)
def test_the_folder(monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], folder: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert home() == Path(folder)
