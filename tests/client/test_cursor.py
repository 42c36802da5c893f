"""When an event stream is taken up again."""

import pytest

from backchannel.client import cursor
from backchannel.client.cursor import Cursor

pytestmark = pytest.mark.rule("R90")


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "jitter", lambda: 0.0)


@pytest.mark.parametrize("retry", [20, 500, 60_000])
def test_what_the_server_says_is_kept_to(retry: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "jitter", lambda: 1.0)
    assert Cursor(retry=retry).pause(0) == retry / 1000
    assert all(Cursor(retry=retry).pause(failures) >= retry / 1000 for failures in range(20))


def test_it_doubles_with_each_failure_up_to_a_limit() -> None:
    assert [Cursor().pause(failures) for failures in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]
    assert [Cursor(retry=100).pause(failures) for failures in range(4)] == [0.1, 0.2, 0.4, 0.8]
    assert Cursor().pause(10_000) == 30


def test_clients_that_lost_the_same_server_do_not_all_return_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for share in (0.0, 0.5, 1.0):
        monkeypatch.setattr(cursor, "jitter", lambda share=share: share)
        assert Cursor().pause(0) == 1 + share / 4
        assert Cursor().pause(9) == 30 * (1 + share / 4)


def test_there_is_no_tight_loop() -> None:
    assert Cursor(retry=0).pause(0) > 0
