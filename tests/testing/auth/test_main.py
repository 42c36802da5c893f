"""The authorization server as a program."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.cli.programs import PATIENCE, environment


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT to a child")
def test_it_serves_until_it_is_stopped() -> None:
    command = [sys.executable, "-m", "backchannel.testing.auth", "--port", "0", "--path", "/tenant", "--scope", "read"]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stderr is not None
            said = program.stderr.readline()
            [issuer] = re.findall(r"http://127\.0\.0\.1:\d+/tenant", said)
            assert "not for production" in said
            with urllib.request.urlopen(f"{issuer}/.well-known/openid-configuration", timeout=PATIENCE) as reply:
                assert json.load(reply)["scopes_supported"] == ["read"]
            program.send_signal(signal.SIGINT)
            assert program.wait(PATIENCE) == 0
        finally:
            program.kill()
