"""The address of a page that a server wants opened: what it may be, and which host it leads to
(client/elicitation, Safe URL Handling)."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_SCHEMES = ("http", "https")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
"""What browsers leave out, or read as a slash: the host that they go to is another one than the host that is shown."""
_PUNYCODE = "xn--"


def problem(url: str) -> str | None:
    """What is wrong with an address that a person is to open, or None.

    "The `url` parameter MUST contain a valid URL". One that is no page of the web, such as `javascript:`, is refused
    too, because of "Clients MUST handle URLs carefully".
    """
    if _FORBIDDEN.search(url):
        return "it has a space, a backslash or a control character in it"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"it is no URL ({error})"
    if parts.scheme not in _SCHEMES:
        return f"it begins with {parts.scheme}: and not with https: or http:" if parts.scheme else "it has no scheme"
    return None if host else "it has no host"


def host(url: str) -> str:
    """The host for people. One whose name is not plain ASCII has both its forms: "SHOULD have warnings for
    ambiguous/suspicious URIs (i.e., containing Punycode)"."""
    name = urlsplit(url).hostname or ""
    try:
        if not name.isascii():
            return f"{name}, which is {name.encode('idna').decode('ascii')}"
        if any(label.startswith(_PUNYCODE) for label in name.split(".")):
            return f"{name}, which reads {name.encode('ascii').decode('idna')}"
    except UnicodeError:
        return f"{name}, which is no name in plain letters"
    return name
