"""The request by which a browser brings the answer of the authorization server, and the page that it gets."""

from __future__ import annotations

from urllib.parse import parse_qsl

LONGEST = 2**14  # bytes of a request's head
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>body{{font:1.1rem/1.6 system-ui,sans-serif;margin:20vh auto;max-width:30em;padding:0 1em}}
@media(prefers-color-scheme:dark){{body{{background:#1b1b1f;color:#e6e6ea}}}}</style></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""
_HEADERS = (
    "content-type: text/html; charset=utf-8",
    "content-security-policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "cache-control: no-store",
    "referrer-policy: no-referrer",
    "x-content-type-options: nosniff",
    "connection: close",
)


def parameters_of(query: str) -> dict[str, str] | None:
    """The parameters of an answer, or None for what is none: it has a `state`, and no name twice."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=50)
    except ValueError:
        return None
    found = dict(pairs)
    return found if len(found) == len(pairs) and "state" in found and ("code" in found or "error" in found) else None


def read(head: bytes, path: str) -> dict[str, str] | None:
    """The parameters in the head of a request, or None where it is not the answer that is waited for."""
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    target, _, version = rest.partition(" ")
    if method != "GET" or not version.startswith("HTTP/1."):
        return None
    place, query = split(target)
    return parameters_of(query) if place == path else None


def split(url: str) -> tuple[str, str]:
    """What is before the query of a URL, and the query: of anything, for anybody can send it here."""
    place, _, query = url.partition("#")[0].partition("?")
    return place, query


def response(is_answer: bool) -> bytes:
    """What the browser gets. Nothing of the request is shown, and nothing is known yet of how the login went."""
    status, title, text = "200 OK", "You can close this page", "The answer has arrived. Go back to your program."
    if not is_answer:
        status, title, text = "404 Not Found", "Nothing here", "This page belongs to no login that is under way."
    page = _PAGE.format(title=title, text=text).encode()
    head = "\r\n".join([f"HTTP/1.1 {status}", *_HEADERS, f"content-length: {len(page)}", "", ""])
    return head.encode() + page
