"""`backchannel login`, `logout` and `whoami`, and the other commands at a server that wants a login."""

import json
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from urllib.request import urlopen

import anyio
import pytest

from backchannel.cli.logins import Logins
from backchannel.testing.auth import AuthServer, Misbehaviour
from tests.cli.programs import COMMAND, PATIENCE, Typist, backchannel, environment, served
from tests.cli.vault import Vault, browser, running


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person with a browser, and a folder of their own."""
    monkeypatch.setenv("BACKCHANNEL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BROWSER", browser(tmp_path))
    return tmp_path / "home"


@pytest.fixture
def vault() -> Iterator[Vault]:
    with running(AuthServer(scopes=["read", "write"])) as vault:
        yield vault


def test_a_login_serves_the_other_commands_until_the_logout(vault: Vault, person: Path) -> None:
    done = backchannel("login", vault.url)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.endswith(f"Logged in to {vault.url}.\n")
    for _ in range(2):
        done = backchannel("call", vault.url, "open_it", "word=sesame")
        assert (done.returncode, done.stdout) == (0, "sesame: it opens\n"), done.stderr
    assert vault.logins() == 1
    assert stat.S_IMODE((person / "logins.json").stat().st_mode) == 0o600
    done = backchannel("logout", vault.url)
    assert (done.returncode, done.stderr) == (0, f"Logged out of {vault.url}.\n")
    (token,) = vault.shown
    assert vault.auth.tokens.access(token) is None
    assert backchannel("logout", vault.url).stderr == f"Not logged in to {vault.url}.\n"
    done = backchannel("call", vault.url, "open_it", "word=sesame")
    assert done.returncode == 3
    assert f"the server wants a login: run backchannel login {vault.url}" in done.stderr
    assert vault.logins() == 1


def test_whoami_shows_all_but_the_tokens(vault: Vault) -> None:
    assert backchannel("whoami").returncode == 1
    done = backchannel("whoami", vault.url)
    assert (done.returncode, done.stderr) == (1, f"Not logged in to {vault.url}.\n")
    backchannel("login", vault.url, "--scope", "read")
    done = backchannel("whoami", vault.url)
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[1:])
    assert done.stdout.splitlines()[0] == vault.url
    assert (lines["issuer"], lines["scopes"]) == (vault.auth.issuer, "read")
    expiry, comma, after = lines["expires"].partition(",")
    assert 3000 < datetime.fromisoformat(expiry).timestamp() - time.time() <= 3600
    assert after == " and is renewed then"
    done = backchannel("whoami", "--json")
    (facts,) = json.loads(done.stdout)
    assert (facts["server"], facts["scopes"], facts["renewable"]) == (vault.url, ["read"], True)
    assert vault.shown and not any(token in done.stdout for token in vault.shown)


def test_an_expired_token_is_renewed_and_nobody_is_asked(vault: Vault) -> None:
    backchannel("login", vault.url)
    vault.refused |= vault.shown
    done = backchannel("call", vault.url, "open_it", "word=sesame")
    assert (done.returncode, done.stdout, vault.logins()) == (0, "sesame: it opens\n", 1), done.stderr
    assert vault.auth.count("token", grant_type="refresh_token") == 1


def test_at_a_terminal_every_command_logs_in_by_itself(vault: Vault) -> None:
    with Typist("call", vault.url, "open_it", "word=sesame") as typist:
        typist.sees("sesame: it opens")
        assert typist.ends() == 0
    assert vault.logins() == 1


def test_without_a_browser_the_address_is_printed(vault: Vault) -> None:
    command = [*COMMAND, "login", vault.url, "--no-browser"]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "open this page" in process.stderr.readline()
        with urlopen(process.stderr.readline().strip()) as page:
            assert b"You can close this page" in page.read()
        assert process.wait(PATIENCE) == 0


def test_a_browser_on_another_machine_is_served_by_pasting(vault: Vault) -> None:
    with Typist("list", vault.url, "--no-browser") as typist:
        typist.sees("open this page in a browser:\n  ")
        typist.sees("paste its address here:")
        address = next(word for word in typist.shown.split() if word.startswith("http"))
        typist.types(vault.auth.visit(address))
        typist.sees("open_it")
        assert typist.ends() == 0


def test_who_pastes_nothing_may_have_the_browser_come_all_the_same(vault: Vault) -> None:
    with Typist("list", vault.url, "--no-browser") as typist:
        typist.sees("open this page in a browser:\n  ")
        typist.sees("paste its address here:")
        address = next(word for word in typist.shown.split() if word.startswith("http"))
        typist.types("\x04")
        with urlopen(address) as page:
            page.read()
        typist.sees("open_it")
        assert typist.ends() == 0
        assert "Traceback" not in typist.shown


def test_a_header_shows_who_it_is_in_place_of_a_login(vault: Vault) -> None:
    token = vault.auth.issue()
    done = backchannel("call", vault.url, "open_it", "word=a", "--header", f"Authorization: Bearer {token}")
    assert done.returncode == 0, done.stderr
    done = backchannel("call", vault.url, "open_it", "word=a", "--header", "authorization: Bearer wrong")
    assert done.returncode == 3
    assert "give another --header 'Authorization: Bearer TOKEN', or none, to log in" in done.stderr
    assert vault.logins() == 0


def test_more_scopes_take_a_new_login(vault: Vault) -> None:
    for scopes, logins in ((["read"], 1), (["read"], 1), (["read", "write"], 2), ([], 2)):
        options = [word for scope in scopes for word in ("--scope", scope)]
        assert backchannel("login", vault.url, *options).returncode == 0
        assert vault.logins() == logins
    assert '"read",\n      "write"' in backchannel("whoami", "--json").stdout


def test_a_client_that_was_registered_beforehand(monkeypatch: pytest.MonkeyPatch, person: Path) -> None:
    monkeypatch.setenv("VAULT_SECRET", "s3cret")
    auth = AuthServer(registration=False)
    auth.add_client("desk", "s3cret")
    with running(auth) as vault:
        done = backchannel("login", vault.url)
        assert done.returncode == 3
        assert "registers no clients" in done.stderr
        options = ["--client-id", "desk", "--client-secret-env", "VAULT_SECRET"]
        assert backchannel("login", vault.url, *options).returncode == 0
        assert anyio.run(Logins().known, vault.url).issuer == auth.issuer  # it goes to no other
        vault.refused |= vault.shown
        done = backchannel("call", vault.url, "open_it", "word=a")  # the client is remembered
        assert (done.returncode, vault.logins()) == (0, 1), done.stderr
        backchannel("logout", vault.url)
        assert backchannel("login", vault.url).returncode == 3
    assert "s3cret" not in (person / "logins.json").read_text()


def test_scopes_that_are_missing_are_named_with_the_command_that_gets_them(vault: Vault) -> None:
    backchannel("login", vault.url, "--scope", "read")
    done = backchannel("call", vault.url, "seal_it")
    assert done.returncode == 3
    assert "this request needs more scopes: insufficient_scope: This needs the scopes: write; " in done.stderr
    assert f"run backchannel login {vault.url} --scope write; " in done.stderr
    assert backchannel("login", vault.url, "--scope", "write").returncode == 0
    assert backchannel("call", vault.url, "seal_it").stdout == "it is sealed\n"
    token = vault.auth.issue(scopes=["read"])
    done = backchannel("call", vault.url, "seal_it", "--header", f"Authorization: Bearer {token}")
    assert done.returncode == 3
    assert "wants a token with more scopes (HTTP 403): insufficient_scope: This needs the scopes: write" in done.stderr


def test_why_a_token_was_refused_is_said(vault: Vault) -> None:
    backchannel("login", vault.url)
    vault.auth.misbehaviour = Misbehaviour(refuse_refresh=True)
    vault.refused |= vault.shown
    done = backchannel("call", vault.url, "open_it", "word=a")
    assert done.returncode == 3
    assert "the token was refused: invalid_token: The token is not good here; the server wants a login" in done.stderr
    assert vault.shown and not any(token in done.stderr for token in vault.shown)


@pytest.mark.parametrize("options", [[], ["--scope", "read"]])
def test_a_server_that_asks_for_no_login(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "open.py").write_text("from backchannel import Server\nserver = Server('open')\n", encoding="utf-8")
    with served("open.py", cwd=tmp_path) as url:
        done = backchannel("login", url, *options)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == f"{url} asks for no login: the other commands work without one.\n"
        assert backchannel("whoami", url).returncode == 1


def test_a_logout_needs_nobody_at_the_other_end(person: Path) -> None:
    with running(AuthServer()) as vault:
        backchannel("login", vault.url)
    done = backchannel("logout", vault.url)
    assert done.returncode == 0
    assert "could not be told" in done.stderr
    assert backchannel("whoami").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["login", "python server.py"], "logins are for servers at a URL"),
        (["logout", "python server.py"], "logins are for servers at a URL"),
        (["whoami", "python server.py"], "logins are for servers at a URL"),
        (["login", "http://127.0.0.1:1/mcp", "--client-secret-env", "X"], "goes with --client-id"),
        (["login", "http://127.0.0.1:1/mcp", "--client-id", "a", "--client-secret-env", "NO_SUCH"], "is not set"),
    ],
)
def test_what_cannot_work_is_wrong_usage(arguments: list[str], why: str) -> None:
    done = backchannel(*arguments)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_file_that_others_can_read_is_not_used(vault: Vault, person: Path) -> None:
    backchannel("login", vault.url)
    os.chmod(person / "logins.json", 0o644)
    done = backchannel("call", vault.url, "open_it", "word=a")
    assert done.returncode == 2
    assert "others can read" in done.stderr
