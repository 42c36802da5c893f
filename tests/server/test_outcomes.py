"""What a person's answer comes to."""

import pytest

from backchannel import Accepted, Cancelled, Context, Declined, Outcome, Refused, Server
from tests.server.replay import DECLINED, accept, both_eras, driver, failed, text


def test_an_accepted_value_unwraps() -> None:
    assert Accepted(7).unwrap() == 7


@pytest.mark.parametrize(("outcome", "action"), [(Declined("Go?"), "decline"), (Cancelled("Go?"), "cancel")])
def test_a_refusal_does_not(outcome: Outcome[int], action: str) -> None:
    with pytest.raises(Refused, match=f"the question 'Go\\?' was answered with '{action}'") as caught:
        outcome.unwrap()
    assert caught.value.action == action


@pytest.mark.anyio
@both_eras
async def test_outcomes_are_matched(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        match await ctx.elicit("Size?", int):
            case Accepted(value):
                return f"size {value}"
            case Declined():
                return "none"
            case Cancelled():
                return "later"

    @server.tool
    async def strict(ctx: Context) -> str:
        return str((await ctx.elicit("Size?", int)).unwrap())

    async with driver(server, version) as wire:
        for given, wanted in ((accept(3), "size 3"), (DECLINED, "none"), ({"action": "cancel"}, "later")):
            assert text(await wire.rounds("tool", lambda *_, given=given: given)) == wanted
        assert (
            failed(await wire.rounds("strict", lambda *_: DECLINED))
            == "the question 'Size?' was answered with 'decline'"
        )


@pytest.mark.parametrize("outcome", [Accepted(True), Accepted(None), Declined(), Cancelled("Go?")])
def test_an_outcome_is_no_yes_or_no(outcome: Outcome[bool]) -> None:
    with pytest.raises(TypeError, match=r"match it, .unwrap\(\) it, or use ctx.confirm"):
        bool(outcome)
    assert outcome == outcome and len({outcome, outcome}) == 1
