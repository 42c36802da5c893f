"""`x-mcp-header`: which definitions are in order, what a client mirrors, what a server refuses."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.errors import INVALID_PARAMS, LocalProtocolError
from backchannel.protocol.http import Headers, decode_value, encode_value
from backchannel.protocol.param_headers import ParamHeader, mirror, mismatch, param_headers

SAFE = 2**53 - 1
REGION: dict[str, Any] = {"type": "string", "x-mcp-header": "Region"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": REGION,
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "where": {"type": "object", "properties": {"zone": {"type": ["string", "null"], "x-mcp-header": "Zone"}}},
        "query": {"type": "string"},
    },
    "required": ["region"],
}
HEADERS = param_headers(SCHEMA)


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def base64_of(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def given_headers(values: dict[str, str]) -> Headers:
    return Headers((name.encode("latin-1"), value.encode("latin-1")) for name, value in values.items())


def judge(values: dict[str, str], arguments: Any, headers: tuple[ParamHeader, ...] = HEADERS) -> str | None:
    return mismatch(headers, given_headers(values), arguments)


# Definitions


def test_the_mirrored_arguments() -> None:
    assert HEADERS == (
        ParamHeader(("region",), "Region", "string"),
        ParamHeader(("count",), "Count", "integer"),
        ParamHeader(("dry",), "Dry", "boolean"),
        ParamHeader(("where", "zone"), "Zone", "string"),
    )
    assert param_headers({}) == param_headers({"type": "object"}) == param_headers(schema(a={}, b=True)) == ()


@pytest.mark.parametrize("name", ["a", "X-9", "!#$%&'*+-.^_`|~", "Tenant_ID"])
def test_names(name: str) -> None:
    assert param_headers(schema(a={"type": "string", "x-mcp-header": name})) == (ParamHeader(("a",), name, "string"),)


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a:b", "a/b", "a\n", "a\r\nX: y", "\x00", "a\x7f", "é", "a,b", '"a"', "(a)", "a[", "a@", "a="]
    + [None, True, 1, ["a"], {"a": 1}],
)
def test_names_that_are_no_tokens(name: Any) -> None:
    with pytest.raises(ValueError, match="x-mcp-header of a is no header name"):
        param_headers(schema(a={"type": "string", "x-mcp-header": name}, b=REGION))


@pytest.mark.parametrize(
    ("stated", "kind"),
    [
        ("integer", "integer"),
        (["null", "integer"], "integer"),
        (["boolean"], "boolean"),
        (["string", "null"], "string"),
    ],
)
def test_types(stated: Any, kind: str) -> None:
    [found] = param_headers(schema(a={"type": stated, "x-mcp-header": "A"}))
    assert found.kind == kind


@pytest.mark.parametrize(
    "node",
    [
        *({"type": stated} for stated in ("number", "object", "array", "null", "text", 1, None)),
        {"type": {}},
        {"type": []},
        *({"type": stated} for stated in (["string", "integer"], ["null"], ["number", "null"], ["string", "object"])),
        {},
        {"enum": ["a"]},
        {"$ref": "#/$defs/a"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ],
    ids=json.dumps,
)
def test_only_primitive_types_are_mirrored(node: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match="x-mcp-header of a.b stands on type .*: it may stand on string, integer, bool"
    ):
        param_headers(schema(a=schema(b={**node, "x-mcp-header": "A"})))


def test_names_are_unique_whatever_their_case() -> None:
    with pytest.raises(ValueError, match=r"x-mcp-header 'REGION' stands at b\.c and at a"):
        param_headers(schema(a=REGION, b=schema(c={"type": "integer", "x-mcp-header": "REGION"})))


@pytest.mark.parametrize(
    "definition",
    [
        REGION,
        *(
            schema(a={word: REGION})
            for word in ("items", "contains", "additionalProperties", "not", "if", "then", "else")
        ),
        *(
            schema(a={word: REGION})
            for word in ("propertyNames", "unevaluatedItems", "unevaluatedProperties", "x-other")
        ),
        *(schema(a={word: [{"type": "null"}, REGION]}) for word in ("anyOf", "oneOf", "allOf", "prefixItems", "items")),
        *(schema(a={word: {"b": REGION}}) for word in ("patternProperties", "dependentSchemas", "dependencies")),
        {**schema(a={"$ref": "#/$defs/a"}), "$defs": {"a": REGION}},
        {**schema(a={"$ref": "#/definitions/a"}), "definitions": {"a": REGION}},
        {**schema(), "$defs": {"never used": schema(a=REGION)}},
        schema(a={"items": schema(b=REGION)}),
        schema(a={"allOf": [schema(b=REGION)]}),
        schema(a={"items": {"items": [[REGION]]}}),
        {"anyOf": [schema(a=REGION)]},
        {"then": schema(a=REGION)},
        {"properties": [{"a": REGION}]},
        schema(enum={"items": REGION}),
        schema(properties={"items": REGION}),
        {"dependencies": {"x-mcp-header": REGION}},
    ],
    ids=json.dumps,
)
def test_annotations_are_reached_by_properties_alone(definition: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"x-mcp-header at .* is not reached by properties alone"):
        param_headers(definition)
    with pytest.raises(ValueError, match=r"not reached"):
        param_headers(schema(fine=REGION, other={"type": "string", "allOf": [definition]}))


def test_the_error_says_where() -> None:
    with pytest.raises(ValueError, match=r"x-mcp-header at a\.anyOf\.properties\.b is not"):
        param_headers(schema(a={"anyOf": [{"type": "null"}, schema(b=REGION)]}))


@pytest.mark.parametrize("keyword", ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"])
def test_a_property_may_have_any_name(keyword: str) -> None:
    """Also that of the annotation, or of a keyword."""
    names = ["x-mcp-header", "items", "enum", "properties", "$defs"]
    definition = {**schema(a=REGION), **({} if keyword == "properties" else {keyword: dict.fromkeys(names, {})})}
    definition["properties"] = {**dict.fromkeys(names, {"type": "string"}), **definition["properties"]}
    assert [found.path for found in param_headers(definition)] == [("a",)]
    definition["properties"]["x-mcp-header"] = {"type": "string", "x-mcp-header": "X"}
    assert [found.path for found in param_headers(definition)] == [("x-mcp-header",), ("a",)]
    definition["properties"]["properties"] = schema(items={"type": "string", "x-mcp-header": "Y"})
    assert ("properties", "items") in [found.path for found in param_headers(definition)]


def test_values_are_no_annotations() -> None:
    value = {"x-mcp-header": "A", "properties": {"b": REGION}}
    node = {"const": value, "default": value, "enum": [value], "examples": [value]}
    definition = {**schema(a=node), "dependentRequired": {"x-mcp-header": ["a"]}, "required": ["x-mcp-header"]}
    assert param_headers(definition) == ()


@pytest.mark.parametrize("word", ["items", "properties"])
def test_a_deep_schema_exhausts_nothing(word: str) -> None:
    node: dict[str, Any] = {"type": "string"}
    for _ in range(3000):
        node = {word: {"a": node} if word == "properties" else node}
    assert param_headers(node) == ()


# What the client sends


def test_what_is_mirrored() -> None:
    arguments = {"region": "us-west1", "count": 42, "dry": False, "where": {"zone": "a"}, "query": "SELECT"}
    assert mirror(HEADERS, arguments) == {
        "Mcp-Param-Region": "us-west1",
        "Mcp-Param-Count": "42",
        "Mcp-Param-Dry": "false",
        "Mcp-Param-Zone": "a",
    }


@pytest.mark.parametrize(
    "arguments",
    [{}, {"region": None, "count": None, "dry": None, "where": None}, {"where": {}}, {"where": {"zone": None}}]
    + [{"where": "zone"}, {"where": ["zone"]}, {"query": "x", "zone": "a"}],
)
def test_what_is_absent_or_null_is_not_mirrored(arguments: Any) -> None:
    assert mirror(HEADERS, arguments) == {}
    assert judge({}, arguments) is None
    for name in ("Region", "Count", "Dry", "Zone"):
        assert f"Mcp-Param-{name} is given, and the body has no value for" in str(
            judge({f"Mcp-Param-{name}": ""}, arguments)
        )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-7, "-7"), (42.0, "42"), (-0.0, "0"), (1e3, "1000"), (SAFE, "9007199254740991"), (-SAFE, f"-{SAFE}")],
)
def test_integers(value: float, text: str) -> None:
    assert mirror(HEADERS, {"count": value}) == {"Mcp-Param-Count": text}
    assert judge({"Mcp-Param-Count": text}, {"count": value}) is None


@pytest.mark.parametrize("value", [SAFE + 1, -SAFE - 1, 2**53 + 1, 1 << 99999, 1e300, 2.0**53, float("inf")], ids=type)
def test_integers_that_a_double_cannot_hold_are_refused(value: float) -> None:
    """Left out, they would pass by whoever routes by the header."""
    with pytest.raises(LocalProtocolError, match=r"count is beyond .* cannot be mirrored in Mcp-Param-Count") as caught:
        mirror(HEADERS, {"count": value})
    assert caught.value.code == INVALID_PARAMS
    assert "beyond" in str(judge({}, {"count": value}))
    assert "beyond" in str(judge({"Mcp-Param-Count": "9007199254740993"}, {"count": value}))


@pytest.mark.parametrize(
    "arguments",
    [
        *({"region": value} for value in (1, 1.5, True, ["a"], {"a": "b"})),
        *({"count": value} for value in (1.5, "42", True, [1], float("nan"))),
        {"count": {}},
        *({"dry": value} for value in ("true", 1, 0, [True])),
    ],
)
def test_wrong_types_are_left_to_the_schema_of_the_tool(arguments: Any) -> None:
    assert mirror(HEADERS, arguments) == {}
    assert judge({}, arguments) is None
    [name] = arguments
    assert judge({f"Mcp-Param-{name}": "x"}, arguments) is None


LITERAL = [
    "",
    "us-west1",
    "a b",
    "internal  space",
    "!~",
    "SGVsbG8=",
    "=?base64?SGVsbG8=",
    "x=?base64?SGVsbG8=?=",
    "?=",
]
ENCODED = {
    "Hello, 世界": "=?base64?SGVsbG8sIOS4lueVjA==?=",
    " padded ": "=?base64?IHBhZGRlZCA=?=",
    " leading": "=?base64?IGxlYWRpbmc=?=",
    "trailing ": "=?base64?dHJhaWxpbmcg?=",
    " ": "=?base64?IA==?=",
    "line1\nline2": "=?base64?bGluZTEKbGluZTI=?=",
    "line1\r\nline2": "=?base64?bGluZTENCmxpbmUy?=",
    "a\tb": "=?base64?YQli?=",
    "\ta": "=?base64?CWE=?=",
    "a\x00b": "=?base64?YQBi?=",
    "a\x7fb": "=?base64?YX9i?=",
    "é": "=?base64?w6k=?=",
    "\xa0": "=?base64?wqA=?=",
    "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
    "=?base64??=": "=?base64?PT9iYXNlNjQ/Pz0=?=",
    "=?base64?=": "=?base64?PT9iYXNlNjQ/PQ==?=",
}


@pytest.mark.parametrize("value", LITERAL)
def test_printable_ascii_is_sent_as_it_is(value: str) -> None:
    assert mirror(HEADERS, {"region": value}) == {"Mcp-Param-Region": value}
    assert judge({"Mcp-Param-Region": value}, {"region": value}) is None


@pytest.mark.parametrize(("value", "header"), ENCODED.items())
def test_everything_else_is_sent_in_base64(value: str, header: str) -> None:
    assert mirror(HEADERS, {"region": value}) == {"Mcp-Param-Region": header}
    assert judge({"Mcp-Param-Region": header}, {"region": value}) is None


def test_the_two_marks_do_not_overlap() -> None:
    assert decode_value("=?base64??=") == "" and decode_value("=?base64?=") == "=?base64?="


@given(st.text(st.characters(codec="utf-8")) | st.text("=?base64 \t?", max_size=20))
def test_every_text_comes_through(value: str) -> None:
    header = encode_value(value)
    assert header.isascii() and (header == "" or header.isprintable()) and header == header.strip()
    assert decode_value(header) == value
    assert judge({"Mcp-Param-Region": f" {header}\t"}, {"region": value}) is None


# What the server refuses


def test_what_is_in_order() -> None:
    arguments = {"region": "Hello", "count": 42, "dry": True, "where": {"zone": "ü"}, "query": "x"}
    headers = {"MCP-PARAM-REGION": "Hello", "mcp-param-count": "42.0", "Mcp-Param-dry": "true"}
    assert judge({**headers, "Mcp-Param-Zone": base64_of("ü")}, arguments) is None


def test_base64_is_never_wrong() -> None:
    assert judge({"Mcp-Param-Region": "=?base64?SGVsbG8=?="}, {"region": "Hello"}) is None
    assert judge({"Mcp-Param-Count": base64_of("42.0")}, {"count": 42}) is None
    assert judge({"Mcp-Param-Dry": base64_of("true")}, {"dry": True}) is None


@pytest.mark.parametrize(
    "header",
    [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?SGVsbG8=SGVsbG8=?=",
        "=?base64? SGVsbG8=?=",
        "=?base64?=SGVsbG8?=",
        "=?base64?SGVsbG8==?=",
        "=?base64?/w==?=",
        "=?base64?_w==?=",
        "=?base64?7aCA?=",
        "Hell\xf8",
        "Hello\x00",
        "He\x1bllo",
        "\x7f",
        "H\xc3\xa9",
    ],
)
def test_malformed_headers(header: str) -> None:
    for value in ("Hello", header, header.encode("latin-1").decode("utf-8", "replace"), "é", "ÿ"):
        found = judge({"Mcp-Param-Region": header}, {"region": value})
        assert found == f"Mcp-Param-Region is missing or malformed, the body says {value!r}"


@pytest.mark.parametrize(
    ("headers", "arguments"),
    [
        ({}, {"region": ""}),
        ({}, {"region": "us-west1"}),
        ({"Mcp-Param-Region": "us-west2"}, {"region": "us-west1"}),
        ({"Mcp-Param-Region": "US-WEST1"}, {"region": "us-west1"}),
        ({"Mcp-Param-Region": "SGVsbG8="}, {"region": "Hello"}),
        ({"Mcp-Param-Region": "=?BASE64?SGVsbG8=?="}, {"region": "Hello"}),
        ({"Mcp-Param-Region": "=?base64?SGVsbG8=?="}, {"region": "=?base64?SGVsbG8=?="}),
        ({"Mcp-Param-Region": "us-west1, us-west1"}, {"region": "us-west1"}),
        ({"Mcp-Param-Region": "1"}, {"region": "1.0"}),
        ({"Mcp-Param-Region": "a"}, {"region": " a"}),
        ({}, {"count": 0}),
        ({"Mcp-Param-Count": "43"}, {"count": 42}),
        ({"Mcp-Param-Count": "42.5"}, {"count": 42}),
        ({"Mcp-Param-Count": "9007199254740991.4"}, {"count": SAFE}),
        ({"Mcp-Param-Count": "9007199254740992"}, {"count": SAFE}),
        ({"Mcp-Param-Count": ""}, {"count": 0}),
        *(({"Mcp-Param-Count": text}, {"count": 42}) for text in ("042", "+42", "4_2", "0x2a", "٤٢", "42.", "4 2")),
        *(
            ({"Mcp-Param-Count": text}, {"count": 42})
            for text in ("nan", "inf", "1e999", "1e99999999999", "42e", "-42")
        ),
        ({}, {"dry": False}),
        *(({"Mcp-Param-Dry": text}, {"dry": True}) for text in ("false", "True", "TRUE", "1", "")),
        ({}, {"where": {"zone": "a"}}),
        ({"Mcp-Param-Zone": "b"}, {"where": {"zone": "a"}}),
        ({"Mcp-Param-Zone": "a"}, {"zone": "a"}),
    ],
)
def test_what_does_not_match(headers: dict[str, str], arguments: Any) -> None:
    sent = {name: value if value.isascii() else base64_of(value) for name, value in headers.items()}
    found = judge(sent, arguments)
    assert found is not None and found.startswith("Mcp-Param-")


@pytest.mark.parametrize("text", ["42", "42.0", "42.000", "4.2e1", "420E-1", "0.42e+2"])
def test_integers_are_compared_as_numbers(text: str) -> None:
    assert judge({"Mcp-Param-Count": text}, {"count": 42}) is None
    assert judge({"Mcp-Param-Count": text}, {"count": 42.0}) is None


def test_zero_has_no_sign() -> None:
    assert judge({"Mcp-Param-Count": "-0"}, {"count": 0}) is None


def test_headers_that_nobody_asked_for_are_ignored() -> None:
    extra = {"Mcp-Param-Query": "other", "Mcp-Param-Other": "\xff", "Mcp-Param-": "", "Mcp-Param-Region": "a"}
    assert judge(extra, {"region": "a", "query": "x"}) is None


def test_long_values_are_cut_in_errors() -> None:
    found = judge({"Mcp-Param-Region": "a" * 5000}, {"region": "b" * 5000})
    assert found == f"Mcp-Param-Region is {'a' * 200!r}, the body says {'b' * 200!r}"


plain = st.text(st.characters(codec="utf-8"), max_size=10)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "region": plain | st.none(),
        "count": st.integers(-SAFE, SAFE) | st.none(),
        "dry": st.booleans() | st.none(),
        "where": st.fixed_dictionaries({}, optional={"zone": plain | st.none()}) | st.none(),
    },
)


@given(arguments, arguments)
def test_a_server_takes_what_a_client_mirrors_and_nothing_else(one: Any, other: Any) -> None:
    sent = mirror(HEADERS, one)
    assert judge(sent, one) is None
    assert (judge(sent, other) is None) == (sent == mirror(HEADERS, other))
