"""What a browser brings back, and what it gets."""

import pytest

from backchannel.client.auth.redirect_request import parameters_of, read, response


def head(line: str) -> bytes:
    return f"{line}\r\nhost: 127.0.0.1\r\n\r\n".encode()


def test_the_answer_is_read() -> None:
    found = read(head("GET /callback?code=a%2Fb+c&state=s&iss=https%3A%2F%2Fas.test HTTP/1.1"), "/callback")
    assert found == {"code": "a/b c", "state": "s", "iss": "https://as.test"}
    assert read(head("GET /callback?error=e&state=s HTTP/1.0"), "/callback") == {"error": "e", "state": "s"}


@pytest.mark.parametrize(
    "line",
    [
        *("GET /favicon.ico HTTP/1.1", "GET /callback HTTP/1.1", "GET /other?code=c&state=s HTTP/1.1"),
        *("POST /callback?code=c&state=s HTTP/1.1", "HEAD /callback?code=c&state=s HTTP/1.1"),
        *("GET /callback?code=c HTTP/1.1", "GET /callback?state=s HTTP/1.1", "GET /callback?code=c&state=s"),
        *("GET /callback?code=c&state=s&state=t HTTP/1.1", "GET /callback?code=c&code=d&state=s HTTP/1.1"),
        *("GET //[ HTTP/1.1", "GET http://[ HTTP/1.1", "GET //[/callback?code=c&state=s HTTP/1.1"),
        *("GET /callback?code&state HTTP/1.1", "", "GET", "\xff\xfe", "GET /callback?code=c&state=s HTTP/2"),
        "GET /callback?state=s&code=c&" + "&".join(f"p{n}=1" for n in range(60)) + " HTTP/1.1",
    ],
)
def test_all_else_is_no_answer(line: str) -> None:
    assert read(head(line), "/callback") is None


def test_a_pasted_query_is_read_alike() -> None:
    assert parameters_of("code=c&state=s") == {"code": "c", "state": "s"}
    assert parameters_of("") is None


def test_the_page_shows_nothing_of_the_request_and_loads_nothing() -> None:
    page = response(True)
    assert page.startswith(b"HTTP/1.1 200 ") and b"You can close this page" in page
    assert b"default-src 'none'" in page and b"no-store" in page and b"no-referrer" in page
    length, content = page.split(b"content-length: ")[1].split(b"\r\n\r\n", 1)
    assert int(length) == len(content)
    assert response(False).startswith(b"HTTP/1.1 404 ")
