"""Forms on the wire of each protocol version, asked from a handler (client/elicitation, Requested Schema)."""

import dataclasses
import datetime
import enum
from typing import Annotated, Any, Literal

import pytest
import typing_extensions
from pydantic import BaseModel, Field, field_validator, model_validator

from backchannel import ConfigurationError, Context, Elicit, MissingCapability, Server
from tests.form_samples import WITH_FORMS
from tests.server.replay import Message, both_eras, driver, failed, message_of, text

pytestmark = pytest.mark.anyio
PLAIN = "2025-06-18"


class Size(enum.Enum):
    SMALL = "s"
    EXTRA_LARGE = "xl"


class Order(BaseModel):
    name: str = "you"
    cups: int = Field(2, ge=1, lt=9)
    strength: float = 0.5
    ice: bool = True
    size: Size = Size.SMALL
    milk: Literal["oat", "cow"] | None = None
    day: datetime.date = datetime.date(2026, 7, 28)


@dataclasses.dataclass
class OrderedDataclass:
    name: str = "you"
    cups: Annotated[int, Field(ge=1, lt=9)] = 2
    strength: float = 0.5
    ice: bool = True
    size: Size = Size.SMALL
    milk: Literal["oat", "cow"] | None = None
    day: datetime.date = datetime.date(2026, 7, 28)


TITLES: dict[str, Message] = {
    "name": {"type": "string", "title": "Name"},
    "cups": {"type": "integer", "title": "Cups", "minimum": 1, "maximum": 8},
    "strength": {"type": "number", "title": "Strength"},
    "ice": {"type": "boolean", "title": "Ice", "default": True},
    "size": {"type": "string", "title": "Size"},
    "milk": {"type": "string", "title": "Milk", "enum": ["oat", "cow"]},
    "day": {"type": "string", "title": "Day", "format": "date"},
}
OPTIONS = [{"const": "s", "title": "Small"}, {"const": "xl", "title": "Extra large"}]
DEFAULTS: dict[str, Message] = {
    "name": {"default": "you"},
    "cups": {"default": 2},
    "strength": {"default": 0.5},
    "ice": {"default": True},
    "size": {"default": "s", "oneOf": OPTIONS},
    "milk": {},
    "day": {"default": "2026-07-28"},
}


@pytest.mark.rule("R167", "R39")
@pytest.mark.parametrize("version", WITH_FORMS)
@pytest.mark.parametrize("kind", [Order, OrderedDataclass])
async def test_each_version_has_its_own_spelling_and_the_server_its_defaults(kind: Any, version: str) -> None:
    server, seen, sent = Server("test"), [], []

    @server.tool
    async def order(ctx: Context) -> str:
        seen.append((await ctx.elicit("What?", kind)).unwrap())
        return "done"

    def answer(key: str, question: Message) -> Message:
        sent.append(question["params"])
        return {"action": "accept"}

    async with driver(server, version) as wire:
        assert text(await wire.rounds("order", answer)) == "done"
    assert seen[-1] == kind()
    if version == PLAIN:
        properties = {**TITLES, "size": {**TITLES["size"], "enum": ["s", "xl"], "enumNames": ["Small", "Extra large"]}}
    else:
        properties = {name: {**schema, **DEFAULTS[name]} for name, schema in TITLES.items()}
    assert sent[0]["requestedSchema"] == {"type": "object", "properties": properties}
    assert sent[0].get("mode") == (None if version == PLAIN else "form")


class Pizza(BaseModel):
    size: Size
    toppings: list[Literal["ham", "egg"]] = Field(min_length=1, max_length=2)


@pytest.mark.rule("R167")
@pytest.mark.case("B08")
@pytest.mark.parametrize("kind", [Pizza, Pizza | None, list[Size]])
async def test_what_only_this_version_lacks_is_told_before_anything_is_sent(kind: Any) -> None:
    server = Server("test")

    @server.tool
    async def order(ctx: Context, catch: bool) -> str:
        try:
            ctx.elicit("Which?", kind, key="pizza")
        except MissingCapability as error:
            assert error.capability == "elicitation.form"
            if not catch:
                raise
        return (await ctx.elicit("Which size?", Size, key="pizza")).unwrap().name

    async with driver(server, PLAIN) as wire:
        assert (
            text(
                await wire.rounds("order", lambda *_: {"action": "accept", "content": {"value": "xl"}}, {"catch": True})
            )
            == "EXTRA_LARGE"
        )
        assert len([message for message in wire.sent if "method" in message]) == 1
        name = "value" if kind == list[Size] else "toppings"
        hint = f"field {name!r}: protocol version 2025-06-18 has no field with several choices"
        assert hint in failed(await wire.call("order", {"catch": False}))
        assert len([message for message in wire.sent if "method" in message]) == 1


class Street(BaseModel):
    name: str


class Address(BaseModel):
    home: Street


@pytest.mark.case("B08")
@pytest.mark.parametrize(("kind", "path"), [(list[int], r"list\[int\]"), (Address, "Address.home")])
def test_what_no_form_can_express_is_refused_where_the_handler_is_registered(kind: Any, path: str) -> None:
    async def move(where: Annotated[kind, Elicit("Where?")]) -> str:
        return str(where)

    with pytest.raises(ConfigurationError, match=rf"^move\(\): parameter 'where': {path}: "):
        Server("test").tool(move)


class Stay(typing_extensions.TypedDict):
    first: datetime.date
    nights: typing_extensions.NotRequired[Annotated[int, Field(multiple_of=7)]]


class Guest(BaseModel):
    name: str
    nick: str

    @field_validator("name")
    @classmethod
    def known(cls, name: str) -> str:
        if name == "nobody":
            raise ValueError("we know nobody")
        return name

    @model_validator(mode="after")
    def short(self) -> "Guest":
        if len(self.nick) > len(self.name):
            raise ValueError("a nick is no longer than a name")
        return self


AGAIN: list[tuple[Any, list[Any], list[str], Any]] = [
    (
        Stay,
        [{"nights": 7}, {"first": "2026-07-28", "nights": 8}, {"first": "2026-07-28"}],
        ["first: is required", "nights: should be a multiple of 7, got 8"],
        {"first": datetime.date(2026, 7, 28)},
    ),
    (
        Guest,
        [None, {"name": "nobody", "nick": "n"}, {"name": "ann", "nick": "annie"}, {"name": "ann", "nick": "a"}],
        ["name: is required; nick: is required", "name: we know nobody", "a nick is no longer than a name"],
        Guest(name="ann", nick="a"),
    ),
    (
        Annotated[str, Field(pattern="^[A-Z]{3}$")],
        [{"value": "osl"}, {"value": "OSL"}],
        ["value: should match pattern '^[A-Z]{3}$', got \"osl\""],
        "OSL",
    ),
]


@pytest.mark.rule("R39", "P7")
@pytest.mark.case("B21")
@both_eras
@pytest.mark.parametrize(("kind", "contents", "reasons", "value"), AGAIN)
async def test_what_only_the_server_can_check_is_asked_again(
    kind: Any, contents: list[Any], reasons: list[str], value: Any, version: str
) -> None:
    """An incomplete answer too: it is an error with the fields that lack, and never a refusal."""
    server, seen, shown = Server("test"), [], list[str]()

    @server.tool
    async def tool(ctx: Context, retries: int) -> str:
        seen.append((await ctx.elicit("Who?", kind, retries=retries)).unwrap())
        return "done"

    given = iter(contents)

    def answer(key: str, question: Message) -> Message:
        shown.append(message_of(question))
        return {"action": "accept", "content": next(given)}

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", answer, {"retries": len(reasons)})) == "done"
        assert shown == ["Who?"] + [f"Who?\n\nThe last answer would not do: {reason}" for reason in reasons]
        assert seen == [value]
        given = iter(contents)
        assert failed(await wire.rounds("tool", answer, {"retries": len(reasons) - 1})) == reasons[-1]


@both_eras
@pytest.mark.parametrize("choices", [["r", "g"], [("r", "Red"), ("g", "Green")], {"r": "Red", "g": "Green"}])
async def test_choices_that_are_known_at_run_time_only(choices: Any, version: str) -> None:
    server, sent = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        return str((await ctx.elicit("Which colour?", choices)).unwrap())

    def answer(key: str, question: Message) -> Message:
        sent.append(question["params"]["requestedSchema"]["properties"]["value"])
        return {"action": "accept", "content": {"value": "g"}}

    async with driver(server, version) as wire:
        assert text(await wire.rounds("tool", answer)) == "g"
    titled = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
    assert sent == [{"type": "string", **({"enum": ["r", "g"]} if choices == ["r", "g"] else {"oneOf": titled})}]


PICTURE = {"accept": ["image/*"], "maxSize": 1000}


class Upload(BaseModel):
    picture: str = Field(json_schema_extra={"format": "uri", "x-mcp-file": PICTURE})
    others: list[Annotated[str, Field(json_schema_extra={"x-mcp-file": PICTURE})]] = Field([], max_length=2)


@pytest.mark.rule("R20")
@both_eras
@pytest.mark.parametrize("able", [True, False])
async def test_files_are_mentioned_to_clients_that_take_them(able: bool, version: str) -> None:
    """The field itself stays. Of a withdrawn proposal."""
    server, sent = Server("test"), []

    @server.tool
    async def upload(ctx: Context) -> str:
        files = (await ctx.elicit("Which?", Upload)).unwrap()
        return f"{files.picture} {files.others}"

    def answer(key: str, question: Message) -> Message:
        sent.append(question["params"]["requestedSchema"])
        return {"action": "accept", "content": {"picture": "data:image/png;base64,", "others": ["data:,x"]}}

    capabilities = {"elicitation": {}, **({"fileInputs": {}} if able else {})}
    async with driver(server, version, capabilities) as wire:
        assert text(await wire.rounds("upload", answer)) == "data:image/png;base64, ['data:,x']"
    told = {"x-mcp-file": PICTURE} if able else {}
    others = {"type": "string", "format": "uri", **told}
    assert sent[0]["properties"] == {
        "picture": {"type": "string", "title": "Picture", "format": "uri", **told},
        "others": {"type": "array", "title": "Others", "maxItems": 2, "items": others},
    }


@pytest.mark.rule("R20", "R167")
async def test_several_files_are_not_asked_for_where_there_are_no_lists() -> None:
    server = Server("test")

    @server.tool
    async def upload(ctx: Context) -> str:
        return str(await ctx.elicit("Which?", Upload))

    async with driver(server, PLAIN, {"elicitation": {}, "fileInputs": {}}) as wire:
        assert "field 'others': protocol version 2025-06-18 has no field with several files" in failed(
            await wire.call("upload")
        )
