"""A handler that raises UrlRequired: pages that the person has to visit before the call can go on (client/elicitation,
URL Mode).

With a session it is an error, after which the client calls again (2025-11-25 client/elicitation, URL Elicitation
Required Error). The stateless protocol has no such error: there the pages are the questions of a round, after which the
handler runs again; of a page with an `until` the person is asked once.
"""

from __future__ import annotations

import msgspec

from ..errors import URL_ELICITATION_REQUIRED, LocalProtocolError, Page, UrlRequired
from ..nursery import Nursery
from .asks import ElicitUrl
from .explicit import InputRequired
from .inputs import Inputs
from .lookout import ROUND, settled, watch


async def visit(required: UrlRequired, inputs: Inputs, nursery: Nursery) -> InputRequired:
    """What a handler that raised `required` comes to: a round with its pages.

    nursery: runs the look-out for pages with an `until`.

    Raises: LocalProtocolError (-32042) where that is an error; MissingCapability for a client that takes no URLs;
    Refused where the person refused a page in an earlier round.
    """
    exchange = inputs.exchange
    pages = {f"url-{number}": _asking(page) for number, page in enumerate(required.pages, 1)}
    for page in pages.values():
        page.gate(exchange.client.capabilities, exchange.version)
    if not exchange.version.is_modern:
        raise _error(required, pages, inputs, nursery)
    wanted = InputRequired(state=True)
    wanted.state = inputs.journal.state
    for key, page in pages.items():
        before = inputs.answers.read(key, page)
        if before is not None:
            before.unwrap()
        if before is None or page.until is None:
            wanted.questions[key] = page
        else:
            await settled(exchange, page, before, ROUND)
    return wanted


def _asking(page: Page) -> ElicitUrl:
    return page if isinstance(page, ElicitUrl) else ElicitUrl(page.text, page.url)


def _error(required: UrlRequired, pages: dict[str, ElicitUrl], inputs: Inputs, nursery: Nursery) -> LocalProtocolError:
    exchange, listed = inputs.exchange, []
    for key, page in pages.items():
        id = f"{inputs.call_id}-{key}"
        listed.append(msgspec.to_builtins(page.params(exchange.version, id)))
        if page.until is not None and exchange.session is not None:
            watch(exchange.session, page, id, nursery)
    return LocalProtocolError(URL_ELICITATION_REQUIRED, str(required), {"elicitations": listed})
