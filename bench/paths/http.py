"""Requests over HTTP, from `wrk`."""

from dataclasses import asdict
from functools import partial

from .. import wire, wrk
from ..contenders import Contender
from ..process import Fleet, HttpServer
from ..wire import Connection, Post, call, payload
from . import Figures, Path, Plan

MANY = 1000
"""Tools of a server that has many."""
MEGABYTE = 1 << 20
ADD = call("add", {"a": 1, "b": 2})
LATER = call("add_later", {"a": 1, "b": 2})
SYNC = call("add_sync", {"a": 1, "b": 2})


def _load(server: HttpServer, posts: list[Post], connections: int, plan: Plan, wanted: bytes) -> Figures:
    wrk.check(server, posts, wanted)
    return asdict(wrk.run(server, posts, connections, plan.seconds))


def _calls(post: Post, connections: int, tools: int, contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    return _load(fleet.server(contender, tools), [post], connections, plan, b'"3"')


def _session(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    server = fleet.server(contender)
    params = {"name": "add", "arguments": {"a": 1, "b": 2}}
    post = wire.legacy(wire.session(server.port), "tools/call", params)
    return _load(server, [post], 16, plan, b'"3"')


def rounds(server: HttpServer, tool: str = "order", arguments: dict[str, object] | None = None) -> list[Post]:
    """The POSTs of all rounds of one call. A state is good for as often as it is sent, so they can be sent again."""
    arguments = arguments or {"item": "coffee"}
    connection, posts = Connection(server.port), [call(tool, arguments)]
    while True:
        status, _, body = connection.ask(posts[-1])
        result = payload(body).get("result", {})
        if result.get("resultType") != "input_required":
            connection.close()
            if status != 200 or not result.get("content"):
                raise RuntimeError(f"{server.contender.title} answered {body[:500]!r}")
            return posts
        answer = {"action": "accept", "content": {"size": "large"}}
        answers = dict.fromkeys(result["inputRequests"], answer)
        posts.append(call(tool, arguments, inputResponses=answers, requestState=result["requestState"]))


def _mrtr(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    server = fleet.server(contender)
    return _load(server, rounds(server), 16, plan, b"coffee large")


def _list(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    server = fleet.server(contender, MANY)
    return _load(server, [wire.modern("tools/list", {})], 1, plan, f'"fill_{MANY - 1}"'.encode())


def _blob(size: int, contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    post = call("blob", {"size": size})
    return _load(fleet.server(contender), [post], 1, plan, b"x" * size)


def _argument(size: int, contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    post = call("length", {"text": "x" * size})
    return _load(fleet.server(contender), [post], 1, plan, str(size).encode())


PATHS = [
    Path("call-16", partial(_calls, ADD, 16, 0)),
    Path("later-16", partial(_calls, LATER, 16, 0)),
    Path("sync-16", partial(_calls, SYNC, 16, 0)),
    Path("call-64", partial(_calls, ADD, 64, 0)),
    Path("call-1", partial(_calls, ADD, 1, 0)),
    Path("session-16", _session),
    Path("mrtr-16", _mrtr),
    Path("list-1000", _list),
    Path("call-1000", partial(_calls, ADD, 16, MANY)),
    Path("blob-1", partial(_blob, MEGABYTE), most=3),
    Path("blob-10", partial(_blob, 10 * MEGABYTE), most=3),
    Path("argument-1", partial(_argument, MEGABYTE), most=3),
]
