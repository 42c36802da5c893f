"""Steps and tokens."""

import pytest

from backchannel.client.auth.steps import Fetch, Fetched, OpenBrowser, Save, Token


@pytest.mark.parametrize(
    ("life", "age", "fresh"),
    [
        (3600, 0, True),
        (3600, 3569, True),
        (3600, 3570, False),  # 30 s before its end
        (100, 89, True),
        (100, 90, False),  # a tenth of its life before
        (0, 0, False),
        (-60, 0, False),
    ],
)
def test_a_token_is_renewed_some_time_before_its_end(life: float, age: float, fresh: bool) -> None:
    assert Token("t", issued_at=1000.0, expires_at=1000.0 + life).is_fresh(1000.0 + age) is fresh


def test_a_token_without_an_end_is_fresh_and_one_of_unknown_age_has_a_margin() -> None:
    assert Token("t").is_fresh(1e12)
    assert Token("t", expires_at=1000.0).is_fresh(996.0)
    assert not Token("t", expires_at=1000.0).is_fresh(997.5)


def test_what_an_answer_leaves_out_stays() -> None:
    before = Token("old", scope="a", refresh_token="r1")
    assert Token("new").over(before) == Token("new", scope="a", refresh_token="r1")
    assert Token("new", scope="", refresh_token="r2").over(before) == Token("new", scope="", refresh_token="r2")


@pytest.mark.parametrize(
    "step",
    [
        Token("hidden", refresh_token="hidden"),
        Fetch("POST", "https://as.test/token", {"authorization": "Basic hidden"}, b"hidden"),
        Fetched(200, {"set-cookie": "hidden"}, b"hidden", "https://as.test"),
        OpenBrowser("https://as.test/?state=hidden"),
        Save("token", b"hidden"),
    ],
)
def test_no_secret_is_shown(step: object) -> None:
    assert "hidden" not in repr(step)
