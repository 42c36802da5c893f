"""Labels of a sequence diagram."""

from typing import Any

import pytest

from backchannel.testing.mermaid import Arrow, diagram, gist


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"method": "ping", "id": 3}, "3 ping"),
        ({"method": "notifications/cancelled", "params": {"requestId": 3}}, "notifications/cancelled 3"),
        ({"method": "resources/read", "id": 3, "params": {"uri": "note://1"}}, "3 resources/read note://1"),
        ({"id": 3, "result": {"action": "decline"}}, "3 decline"),
        ({"id": 3, "result": {"content": {"type": "text", "text": "Hi"}, "model": "m"}}, "3 Hi"),
        ({"id": 3, "result": {"content": [{"type": "text", "text": "Hi"}], "isError": True}}, "3 isError Hi"),
        ({"id": 3, "result": {"tools": []}}, "3 result"),
        ({"id": 3, "error": {"code": -1, "message": "no"}}, "3 error -1 no"),
        ({"malformed": "no JSON"}, "malformed"),
    ],
)
def test_the_gist_of_a_message(members: dict[str, Any], text: str) -> None:
    assert gist(members) == text


def test_labels_are_short_and_do_not_break_the_diagram() -> None:
    text = diagram(
        [Arrow("client", "server", {"method": "a/b", "params": {"name": "x;\n#" + "y" * 100}}, notification=True)]
    )
    label = text.splitlines()[-1]
    assert label.startswith("    C-)S1: a/b x#59; #35;yyy") and label.endswith("…")
