"""URI templates: the examples of RFC 6570, and matching, which is ours."""

import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backchannel.protocol.uri_template import UriTemplate, Value

# RFC 6570, section 3.2. Mappings are ordered here, so each example has the first of the orders that the RFC allows.
VALUES: dict[str, Value] = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_keys": {},
    "undef": None,
}

EXAMPLES = {
    "3.2.1 Variable Expansion": """
        {count}             one,two,three
        {count*}            one,two,three
        {/count}            /one,two,three
        {/count*}           /one/two/three
        {;count}            ;count=one,two,three
        {;count*}           ;count=one;count=two;count=three
        {?count}            ?count=one,two,three
        {?count*}           ?count=one&count=two&count=three
        {&count*}           &count=one&count=two&count=three
    """,
    "3.2.2 Simple String Expansion": """
        {var}               value
        {hello}             Hello%20World%21
        {half}              50%25
        O{empty}X           OX
        O{undef}X           OX
        {x,y}               1024,768
        {x,hello,y}         1024,Hello%20World%21,768
        ?{x,empty}          ?1024,
        ?{x,undef}          ?1024
        ?{undef,y}          ?768
        {var:3}             val
        {var:30}            value
        {list}              red,green,blue
        {list*}             red,green,blue
        {keys}              semi,%3B,dot,.,comma,%2C
        {keys*}             semi=%3B,dot=.,comma=%2C
    """,
    "3.2.3 Reserved Expansion": """
        {+var}              value
        {+hello}            Hello%20World!
        {+half}             50%25
        {base}index         http%3A%2F%2Fexample.com%2Fhome%2Findex
        {+base}index        http://example.com/home/index
        O{+empty}X          OX
        O{+undef}X          OX
        {+path}/here        /foo/bar/here
        here?ref={+path}    here?ref=/foo/bar
        up{+path}{var}/here up/foo/barvalue/here
        {+x,hello,y}        1024,Hello%20World!,768
        {+path,x}/here      /foo/bar,1024/here
        {+path:6}/here      /foo/b/here
        {+list}             red,green,blue
        {+list*}            red,green,blue
        {+keys}             semi,;,dot,.,comma,,
        {+keys*}            semi=;,dot=.,comma=,
    """,
    "3.2.4 Fragment Expansion": """
        {#var}              #value
        {#hello}            #Hello%20World!
        {#half}             #50%25
        foo{#empty}         foo#
        foo{#undef}         foo
        {#x,hello,y}        #1024,Hello%20World!,768
        {#path,x}/here      #/foo/bar,1024/here
        {#path:6}/here      #/foo/b/here
        {#list}             #red,green,blue
        {#list*}            #red,green,blue
        {#keys}             #semi,;,dot,.,comma,,
        {#keys*}            #semi=;,dot=.,comma=,
    """,
    "3.2.5 Label Expansion with Dot-Prefix": """
        {.who}              .fred
        {.who,who}          .fred.fred
        {.half,who}         .50%25.fred
        www{.dom*}          www.example.com
        X{.var}             X.value
        X{.empty}           X.
        X{.undef}           X
        X{.var:3}           X.val
        X{.list}            X.red,green,blue
        X{.list*}           X.red.green.blue
        X{.keys}            X.semi,%3B,dot,.,comma,%2C
        X{.keys*}           X.semi=%3B.dot=..comma=%2C
        X{.empty_keys}      X
        X{.empty_keys*}     X
    """,
    "3.2.6 Path Segment Expansion": """
        {/who}              /fred
        {/who,who}          /fred/fred
        {/half,who}         /50%25/fred
        {/who,dub}          /fred/me%2Ftoo
        {/var}              /value
        {/var,empty}        /value/
        {/var,undef}        /value
        {/var,x}/here       /value/1024/here
        {/var:1,var}        /v/value
        {/list}             /red,green,blue
        {/list*}            /red/green/blue
        {/list*,path:4}     /red/green/blue/%2Ffoo
        {/keys}             /semi,%3B,dot,.,comma,%2C
        {/keys*}            /semi=%3B/dot=./comma=%2C
    """,
    "3.2.7 Path-Style Parameter Expansion": """
        {;who}              ;who=fred
        {;half}             ;half=50%25
        {;empty}            ;empty
        {;v,empty,who}      ;v=6;empty;who=fred
        {;v,bar,who}        ;v=6;who=fred
        {;x,y}              ;x=1024;y=768
        {;x,y,empty}        ;x=1024;y=768;empty
        {;x,y,undef}        ;x=1024;y=768
        {;hello:5}          ;hello=Hello
        {;list}             ;list=red,green,blue
        {;list*}            ;list=red;list=green;list=blue
        {;keys}             ;keys=semi,%3B,dot,.,comma,%2C
        {;keys*}            ;semi=%3B;dot=.;comma=%2C
    """,
    "3.2.8 Form-Style Query Expansion": """
        {?who}              ?who=fred
        {?half}             ?half=50%25
        {?x,y}              ?x=1024&y=768
        {?x,y,empty}        ?x=1024&y=768&empty=
        {?x,y,undef}        ?x=1024&y=768
        {?var:3}            ?var=val
        {?list}             ?list=red,green,blue
        {?list*}            ?list=red&list=green&list=blue
        {?keys}             ?keys=semi,%3B,dot,.,comma,%2C
        {?keys*}            ?semi=%3B&dot=.&comma=%2C
    """,
    "3.2.9 Form-Style Query Continuation": """
        {&who}              &who=fred
        {&half}             &half=50%25
        ?fixed=yes{&x}      ?fixed=yes&x=1024
        {&x,y,empty}        &x=1024&y=768&empty=
        {&x,y,undef}        &x=1024&y=768
        {&var:3}            &var=val
        {&list}             &list=red,green,blue
        {&list*}            &list=red&list=green&list=blue
        {&keys}             &keys=semi,%3B,dot,.,comma,%2C
        {&keys*}            &semi=%3B&dot=.&comma=%2C
    """,
}
ROWS = [
    pytest.param(*line.split(), id=f"{section.split()[0]} {line.split()[0]}")
    for section, table in EXAMPLES.items()
    for line in table.strip().splitlines()
]


def match(template: str, uri: str) -> Any:
    return UriTemplate(template).match(uri)


# Expansion


@pytest.mark.parametrize(("template", "uri"), ROWS)
def test_the_examples_of_the_rfc(template: str, uri: str) -> None:
    assert UriTemplate(template).expand(VALUES) == uri


@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        ("note://{a.b}/{c%20d}{?e%2ff}", {"a.b": "1", "c%20d": "2", "e%2ff": "3"}, "note://1/2?e%2ff=3"),
        ("ü/{x}", {"x": "ü"}, "%C3%BC/%C3%BC"),
        ('a b"<%>%41%4g/{x}', {"x": "1"}, "a%20b%22%3C%25%3E%41%254g/1"),
        ("{x:2}{+x:2}", {"x": "%20%20%20"}, "%252%20%20"),
        ("{x:2}{+x:3}", {"x": "é%€!"}, "%C3%A9%25%C3%A9%25%E2%82%AC"),
        ("{+x}", {"x": "100%25%2f%zz"}, "100%25%2f%25zz"),
        ("{x*}{?y*}", {"x": [], "y": {"a": None}}, ""),
        ("{?x,y*}", {"x": [None, "1"], "y": {"a": None, "b": "2"}}, "?x=1&b=2"),
        ("{?x*}{;x*}", {"x": {"a&b=": ""}}, "?a%26b%3D=;a%26b%3D"),
        ("{x}", {}, ""),
        ("", {}, ""),
    ],
)
def test_what_the_examples_leave_open(template: str, values: Any, uri: str) -> None:
    assert UriTemplate(template).expand(values) == uri


@pytest.mark.parametrize("value", [["a"], {"a": "b"}, []])
def test_there_is_no_prefix_of_a_list(value: Any) -> None:
    with pytest.raises(ValueError, match="x:3 is a prefix"):
        UriTemplate("{x:3}").expand({"x": value})


@pytest.mark.parametrize("value", [42, True, b"ab", object()])
def test_a_value_is_text_or_made_of_text(value: Any) -> None:
    with pytest.raises(TypeError, match="the_id is text, a list or a mapping"):
        UriTemplate("{the_id}").expand({"the_id": value})


# Templates


@pytest.mark.parametrize(
    "template",
    """
    { } {} a{b}} {{a}} {a{b}} {/id* /id*} {a}}{b
    {,} {a,} {,a} {a,,b} {a} {+} {?} {a*:3} {a:3*} {a**} {a:} {a:0} {a:03} {a:10000} {a:-1} {a:x}
    {?? } {/?id} {!a} {=a} {@a} {|a} {$a} {~a} {-a} {a-b} {a|b} {a=b} {a+b} {#a+} {a.} {.a.} {a..b} {%2} {%gg} {ü} {a\n}
    """.replace(" {a} ", " ").split(),
)
def test_a_template_with_a_mistake_is_an_error_that_shows_it(template: str) -> None:
    with pytest.raises(ValueError, match="the URI template") as caught:
        UriTemplate(template)
    assert repr(template) in str(caught.value)


def test_names() -> None:
    template = UriTemplate("{x}{/a.b,%41*}{?x:3,_9}")
    assert template.names == ("x", "a.b", "%41", "_9") and template.is_template
    assert UriTemplate("note://1").names == () and not UriTemplate("note://1").is_template


# Matching


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("note://1", "note://1", {}),
        ("note://1", "note://12", None),
        ("", "", {}),
        ("", "x", None),
        ("note://{id}", "note://1", {"id": "1"}),
        ("note://{id}", "note://a%20b%C3%BC%e2%82%ac", {"id": "a bü€"}),
        ("note://{id}", "note://", None),
        ("note://{id}", "note://1/2", None),
        ("note://{id}", "note://1?x", None),
        ("note://{id}", "note://1#x", None),
        ("note://{id}", "Note://1", None),
        ("note://{id}", "note://Oslo,NO;x=1&y:@!", {"id": "Oslo,NO;x=1&y:@!"}),
        ("note://{id}/x", "note://1/x", {"id": "1"}),
        ("note://{id}/x", "note://1/x/x", None),
        ("{a}-{b}", "1-2-3", {"a": "1", "b": "2-3"}),
        ("{a}{b}", "123", {"a": "1", "b": "23"}),
        ("{a,b}", "1,2", {"a": "1", "b": "2"}),
        ("{a,b}", "1", None),
        ("{a,b}", "1,2,3", None),
        ("{a*}", "1,2,3", {"a": ["1", "2", "3"]}),
        ("{a*,b}", "1,2,3", {"a": ["1", "2"], "b": "3"}),
        ("{a:2}", "12", {"a": "12"}),
        ("{a:2}", "%C3%BC%F0%9F%98%80", {"a": "ü😀"}),
        ("{a:2}", "123", None),
        ("file:///{+path}", "file:///a/b%2Fc.txt", {"path": "a/b/c.txt"}),
        ("file:///{+path}", "file:///", {"path": ""}),
        ("file:///{+path}", "file:///a?b", None),
        ("file:///{+path}", "file:///a%3Fb", {"path": "a?b"}),
        ("{+a}/{b}", "1/2/3", {"a": "1/2", "b": "3"}),
        ("{+a}/{+b}", "1/2/3", {"a": "1", "b": "2/3"}),
        ("{+a,b}", "1,2,3", {"a": "1", "b": "2,3"}),
        ("{+a:3}/{b}", "1/2/3", {"a": "1/2", "b": "3"}),
        ("{+a:2}/{b}", "1/2/3", None),
        ("{+path}{.ext}", "a.b/c.tar.gz", {"path": "a.b/c.tar", "ext": "gz"}),
        ("{+path}{.ext}", "a.b/c", {"path": "a.b/c"}),
        ("x{.a}", "x", {}),
        ("x{.a}", "x.", None),
        ("x{.a}", "x.1.2", None),
        ("x{.a,b}", "x.1", {"a": "1"}),
        ("x{.a,b}", "x.1.2", {"a": "1", "b": "2"}),
        ("x{.a*}", "x.1.2", {"a": ["1", "2"]}),
        ("x{/a}", "x", {}),
        ("x{/a}", "x/", None),
        ("x{/a}", "x/1/2", None),
        ("x{/a,b}/y", "x/1/y", {"a": "1"}),
        ("x{/a,b}/y", "x/1/2/y", {"a": "1", "b": "2"}),
        ("x{/a*}", "x/1//2/", {"a": ["1", "", "2", ""]}),
        ("x{/a*}{/b}", "x/1/2/3", {"a": ["1", "2"], "b": "3"}),
        ("x{/a*}", "x/1?y", None),
        ("x{#a}", "x#1/?#,2", {"a": "1/?#,2"}),
        ("x{#a}", "x#", {"a": ""}),
        ("x{#a}", "x", {}),
        ("x{#a,b}", "x#1,2", {"a": "1", "b": "2"}),
        ("x{;a,b*}/y", "x;b=1;a;b=2/y", {"a": "", "b": ["1", "2"]}),
        ("x{;a}", "x;a=1/2", None),
        ("x{?a,b}", "x?b=2&a=1%262", {"a": "1&2", "b": "2"}),
        ("x{?a,b}", "x", {}),
        ("x{?a,b}", "x?", {}),
        ("x{?a,b}", "x?a&b=", {"a": "", "b": ""}),
        ("x{?a}", "x?a=/%2F?:1=2+3", {"a": "//?:1=2+3"}),
        ("x{?a}", "x?a=1&c=2", None),
        ("x{?a}", "x?a=1&a=2", None),
        ("x{?a}", "x&a=1", None),
        ("x{?a}", "x?a=1#2", None),
        ("x{?a}{#b}", "x?a=1#2", {"a": "1", "b": "2"}),
        ("x{?a*}", "x?a=1&a=2", {"a": ["1", "2"]}),
        ("x{?a*}", "x?semi=1", None),
        ("x{?a:1}", "x?a=%C3%BC", {"a": "ü"}),
        ("x{?a:1}", "x?a=12", None),
        ("x{?a}{&b,c}", "x?c=3&a=1&b=2", {"a": "1", "b": "2", "c": "3"}),
        ("x?y=1{&a}", "x?y=1&a=2", {"a": "2"}),
        ("x?y=1{&a}", "x?y=1", {}),
        ("x{?a}&y=1", "x?a=2&y=1", {"a": "2"}),
        ("{/a:1,a}", "/v/value", {"a": "value"}),
        ("{/a:1,a}", "/w/value", None),
        ("{a}/{a}", "1/1", {"a": "1"}),
        ("{a}/{a}", "1/2", None),
        ("{a}{?a*}", "1?a=1", None),
        ("{a:2}/{a:1}", "12/1", {"a": "12"}),
        ("{a:2}/{a:1}", "12/2", None),
    ],
)
def test_what_matches(template: str, uri: str, values: Any) -> None:
    assert match(template, uri) == values


def test_names_come_back_as_they_are_written() -> None:
    values = {"a.b": "1", "a__b": "2", "c%20d": "3", "_": "4", "e%2ff": "5", "g%41": "6", "v": "7"}
    template = UriTemplate("{a.b}/{a__b}/{c%20d}/{_}{?e%2ff,g%41,v}")
    assert template.names == tuple(values)
    assert template.match(template.expand(values)) == values
    assert template.match("1/2/3/4?gA=6&v=7&e%2Ff=5") == values
    assert template.match("1/2/3/4?e/f=5") is None


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("caf\u00e9 {x}", "caf%C3%A9%20a%CC%8A%7e%2D"),
        ("caf%c3%a9%20{x}", "café a\u030a~-"),
        ("%63af\u00e9%20{x}", "%63af%c3%A9 a\u030a%7E-"),
    ],
)
def test_equal_uris_match_alike(template: str, uri: str) -> None:
    assert match(template, uri) == {"x": "a\u030a~-"}


@pytest.mark.parametrize(
    "uri", ["note://%FF", "note://%C3", "note://%C3x%BC", "note://%ED%A0%80", "note://%C0%AF", "note://\ud800"]
)
def test_what_is_not_utf_8_does_not_match(uri: str) -> None:
    for template in ("note://{x}", "note://{+x}", "note://{?x}"):
        assert match(template, uri) is None
        assert match(template, uri.replace("//", "//?x=")) is None
    assert match(uri.encode("utf-8", "replace").decode(), uri) is None


@pytest.mark.parametrize(
    "value", ["..", ".", "%2E%2e", "%2e", ".%2E", "a%2Fb", "a%2fb", "%2e%2e%2fetc", "%2F", "a\\b", "a%5Cb", "..%5c"]
)
@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("x/{a}", "x/{}"),
        ("x/{a}/y", "x/{}/y"),
        ("x/{b,a}", "x/1,{}"),
        ("x/{a*}", "x/1,{}"),
        ("x{/a}", "x/{}"),
        ("x{/a:9}/y", "x/{}/y"),
        ("x{/a*}", "x/1/{}"),
        ("{+b}/{a}", "x/{}"),
    ],
)
def test_a_segment_is_one_name(template: str, uri: str, value: str) -> None:
    """Joined to a directory, it stays in there."""
    assert match(template, uri.format(value)) is None
    assert match(template, uri.format("..%2Eok"))["a"] in ("...ok", ["1", "...ok"])


@pytest.mark.parametrize("value", ["../../etc/passwd", "%2E%2E%2F..%2fetc%2Fpasswd"])
@pytest.mark.parametrize(
    ("template", "uri"),
    [("x/{+a}", "x/{}"), ("x{#a}", "x#{}"), ("x{?a}", "x?a={}"), ("x?b=1{&a}", "x?b=1&a={}")],
)
def test_other_values_may_be_anything(template: str, uri: str, value: str) -> None:
    assert match(template, uri.format(value)) == {"a": "../../etc/passwd"}


# What is expanded is matched, where the values can be told from what stands between them.


def text(without: str = "", least: int = 1) -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8", exclude_characters=without), min_size=least, max_size=8)


SEGMENT = text("/\\.")
ANY = text(least=0)


@given(SEGMENT, SEGMENT, SEGMENT, st.lists(SEGMENT, min_size=1), st.none() | SEGMENT)
def test_segments_come_back(a: str, b: str, c: str, items: list[str], extension: str | None) -> None:
    template = UriTemplate("x://{a}/{b,c}/y{/items*}/z{.extension}")
    values = {"a": a, "b": b, "c": c, "items": items} | ({"extension": extension} if extension else {})
    assert template.match(template.expand(values)) == values


@given(st.lists(SEGMENT, min_size=1), st.lists(SEGMENT, min_size=1), st.lists(ANY, min_size=1))
def test_lists_come_back(a: list[str], b: list[str], c: list[str]) -> None:
    template = UriTemplate("x:{a*}/y{.b*}/z{;c*}")
    values = {"a": a, "b": b, "c": c}
    assert template.match(template.expand(values)) == values


@given(st.dictionaries(st.sampled_from("abcdef"), ANY), st.lists(ANY))
def test_named_values_come_back(texts: dict[str, str], items: list[str]) -> None:
    template = UriTemplate("x://y{;a,b}{?c,d,items*}&z=1{&e,f}")
    values = {**texts, "items": items} if items else texts
    assert template.match(template.expand(values)) == values


@given(text("%?#", least=0), text("%?#/", least=0), text("%", least=0))
def test_reserved_values_come_back(path: str, name: str, fragment: str) -> None:
    template = UriTemplate("file:///{+path}/{name:99}x{#fragment}")
    values = {"path": path, "name": f"n{name}".replace("\\", ""), "fragment": fragment}
    assert template.match(template.expand(values)) == values


# A regular expression finds the same, where it need not think of time.
PATTERNS = {
    "{a}": "(?P<a>[^/?#]+?)",
    "{+b}": "(?P<b>[^?#]*?)",
    "{+c:2}": "(?P<c>[^?#]{0,2}?)",
    "{d,e}": "(?P<d>[^/?#,]+?),(?P<e>[^/?#,]+?)",
    "{/f}": "(?:/(?P<f>[^/?#]+?))?",
    "{/g,h}": "(?:/(?P<g>[^/?#]+?)(?:/(?P<h>[^/?#]+?))?)?",
    "{.i:3}": "(?:[.](?P<i>[^/?#.]{1,3}?))?",
    "{#j,k}": "(?:#(?P<j>.*?)(?:,(?P<k>.*?))?)?",
    **{literal: re.escape(literal) for literal in ("/", "x", "?", "#", ",", ".x")},
}


@settings(max_examples=300)
@given(st.lists(st.sampled_from(sorted(PATTERNS)), max_size=7, unique=True), st.text("abcx/?#,.", max_size=12))
def test_the_same_as_a_regular_expression(parts: list[str], uri: str) -> None:
    expected = re.fullmatch("".join(PATTERNS[part] for part in parts), uri)
    values = expected and {name: value for name, value in expected.groupdict().items() if value is not None}
    if values and not {".", ".."}.isdisjoint(value for name, value in values.items() if name not in "bcjk"):
        values = None
    assert match("".join(parts), uri) == values


# Time

HOSTILE = ["/" * 8192, "a/" * 4096, "a,b/" * 2048, ".a" * 4096, "&a=1" * 2048, "%2F" * 2730, ";a=1" * 2048, "ü" * 8192]


@pytest.mark.parametrize("end", ["", "!", "?!"])
@pytest.mark.parametrize(
    "template",
    [
        "{+a}/{+b}/{+c}/{+d}/{+e}/{+f}!",
        "{+a}{+b}{+c}{+d}{+e}{+f}!",
        "{+a}/{b}/{+c}/{d}.{e}/{+f}/{g}?x",
        "{+a*}/{+b,c,d,e}{.f*}{/g*}{/h*}{/i}!",
        "{a}{b}{c}{d}{e}{f}{g}{h}!",
        "{+a:9999}{+b:9999}{+c:9999}{+d:9999}!",
        "{?a*}{#b,c,d,e,f,g}!",
        "{+a}{?b}{;c*}{?d}{;e}{&f}!",
    ],
)
def test_no_uri_takes_long(template: str, end: str) -> None:
    parsed = UriTemplate(template)
    slowest = 0.0
    for uri in HOSTILE:
        began = time.thread_time()
        parsed.match(uri + end)
        slowest = max(slowest, time.thread_time() - began)
    assert slowest < 0.05


@settings(max_examples=200)
@given(st.text(max_size=40), st.text(max_size=40))
def test_nothing_else_is_ever_raised(template: str, uri: str) -> None:
    try:
        parsed = UriTemplate(template)
    except ValueError:
        return
    parsed.match(uri)
