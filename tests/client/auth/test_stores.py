"""The stores: what they keep, and that one at a time obtains tokens."""

import os
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from backchannel.client.auth import file_store
from backchannel.client.auth.file_store import FileStore
from backchannel.client.auth.keyring_store import KeyringStore
from backchannel.client.auth.stores import MemoryStore, Store
from backchannel.errors import ConfigurationError

pytestmark = pytest.mark.anyio


class Backend:
    """A keyring."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.kept[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


class Keyring:
    """The package."""

    class errors:
        class KeyringError(Exception):
            pass


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Backend:
    monkeypatch.setitem(sys.modules, "keyring", Keyring)  # type: ignore[misc]
    monkeypatch.setitem(sys.modules, "keyring.errors", Keyring.errors)  # type: ignore[misc]
    return Backend()


@pytest.fixture(params=["memory", "file", "keyring"])
def store(request: pytest.FixtureRequest, tmp_path: Path, keyring: Backend) -> Store:
    made: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "file": lambda: FileStore(tmp_path / "folder" / "tokens.json"),
        "keyring": lambda: KeyringStore(backend=keyring),
    }
    return made[request.param]()


async def test_what_is_kept_comes_back(store: Store) -> None:
    assert await store.load("token https://ü.test/?a=b") is None
    await store.save("token https://ü.test/?a=b", b"\x00\xff value")
    await store.save("other", b"")
    assert await store.load("token https://ü.test/?a=b") == b"\x00\xff value"
    assert await store.load("other") == b""
    await store.save("other", b"new")
    assert await store.load("other") == b"new"


async def test_what_is_forgotten_is_gone(store: Store) -> None:
    await store.save("a", b"1")
    await store.save("b", b"2")
    await store.save("a", None)
    await store.save("never there", None)
    assert (await store.load("a"), await store.load("b")) == (None, b"2")


async def test_one_at_a_time_holds_the_lock_of_a_name(store: Store) -> None:
    holders = most = 0

    async def hold() -> None:
        nonlocal holders, most
        async with store.lock("token"):
            holders += 1
            most = max(most, holders)
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            holders -= 1

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(hold)
    assert most == 1


async def test_locks_of_other_names_are_free(store: Store) -> None:
    with anyio.fail_after(20):
        async with store.lock("one"), store.lock("two"):
            await store.save("one", b"1")


async def test_a_lock_goes_with_who_is_cancelled(store: Store) -> None:
    held = anyio.Event()

    async def hold() -> None:
        async with store.lock("token"):
            held.set()
            await anyio.sleep_forever()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            await held.wait()
            group.cancel_scope.cancel()
        async with store.lock("token"):
            pass


async def test_no_lock_is_left_in_memory() -> None:
    store = MemoryStore()
    async with store.lock("token"):
        pass
    assert store._locks == {}


async def test_nothing_that_is_kept_is_shown(store: Store) -> None:
    await store.save("a", b"hidden")
    assert "hidden" not in repr(store)


# The file


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
async def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "tokens.json"
    before = os.umask(0)
    try:
        await FileStore(path).save("a", b"1")
        await FileStore(path).save("a", b"2")
        async with FileStore(path).lock("a"):
            pass
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
async def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    await FileStore(path).save("a", b"1")
    path.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        await FileStore(path).load("a")
    with pytest.raises(ConfigurationError, match="chmod 600"):
        await FileStore(path).save("b", b"2")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff"])
async def test_a_file_that_is_none_of_its_own_is_not_written_over(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokens.json"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match="no file of tokens"):
        await FileStore(path).save("a", b"1")
    assert path.read_bytes() == content


async def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens.json"
    await FileStore(path).save("a", b"1")

    def fails(*_: Any) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="no space"):
        await FileStore(path).save("a", b"2")
    monkeypatch.undo()
    assert await FileStore(path).load("a") == b"1"
    assert sorted(os.listdir(tmp_path)) == ["tokens.json", "tokens.json.lock"]


async def test_its_names_can_be_listed(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "tokens.json")
    assert await store.keys() == []
    await store.save("a", b"1")
    await store.save("b", b"2")
    assert await store.keys() == ["a", "b"]


_WRITER = """
import sys, anyio
from backchannel.client.auth.file_store import FileStore
async def main():
    for number in range(15):
        await FileStore(sys.argv[1]).save(f"{sys.argv[2]} {number}", b"x")
anyio.run(main)
"""


async def test_several_processes_write_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for name in ("a", "b", "c"):
                command = [sys.executable, "-c", _WRITER, str(path), name]
                group.start_soon(partial(anyio.run_process, command, env=environment))
    assert len(await FileStore(path).keys()) == 45


async def test_the_lock_of_another_process_is_waited_for_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(file_store, "_FLOW", 0.0)
    store = FileStore(tmp_path / "tokens.json")
    with anyio.fail_after(20):
        async with store.lock("token"), store.lock("token"):
            pass
    assert "going on without it" in caplog.text


async def test_where_nothing_can_be_written_it_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = FileStore(tmp_path / "file" / "tokens.json")
    async with store.lock("token"):
        pass
    assert "nothing can be locked" in caplog.text
    with pytest.raises(OSError):
        await store.save("a", b"1")


# The keyring


async def test_what_the_keyring_has_is_text(keyring: Backend) -> None:
    await KeyringStore("mine", keyring).save("a", b"\xff")
    assert keyring.kept == {("mine", "a"): "1:/w=="}


async def test_a_long_one_is_in_pieces(keyring: Backend) -> None:
    store = KeyringStore(backend=keyring)
    for size in (0, 1, 749, 750, 751, 5000, 1500, 10):
        await store.save("a", b"x" * size)
        assert await store.load("a") == b"x" * size
        assert max(map(len, keyring.kept.values())) < 1280
        assert len(keyring.kept) == max(1, -(-size * 4 // 3000))
    await store.save("a", b"x" * 5000)
    await store.save("a", None)
    assert keyring.kept == {}


@pytest.mark.parametrize("first", ["", "2:x", "x:y", "-1:", "9", "99999999:x"])
async def test_what_is_no_value_of_its_own_is_as_if_it_were_not_there(keyring: Backend, first: str) -> None:
    keyring.kept["backchannel", "a"] = first
    store = KeyringStore(backend=keyring)
    assert await store.load("a") is None
    await store.save("a", b"1")
    assert await store.load("a") == b"1"


async def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'backchannel\[keyring\]'"):
        await KeyringStore().load("a")


async def test_a_keyring_that_fails_is_said(keyring: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise Keyring.errors.KeyringError("hidden")

    monkeypatch.setattr(keyring, "get_password", fails)
    with pytest.raises(ConfigurationError, match="keyring cannot be used") as caught:
        await KeyringStore(backend=keyring).load("a")
    assert "hidden" not in str(caught.value)
