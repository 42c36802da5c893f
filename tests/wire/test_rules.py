"""Rules that hold in every transcript, or that one of them shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from backchannel.protocol.versions import CACHEABLE, FEATURES, LATEST_LEGACY, LEGACY, MODERN, Version

from .checks import Sent, sent
from .reading import Json, connections, kind, transcripts, typed

ENVELOPE = "io.modelcontextprotocol/"
UNANSWERED = {"http-cancel": {"tools/call"}, "http-listen": {"subscriptions/listen"}}
"""Requests whose stream the client closes, which says all."""


@pytest.mark.rule("R1", "R25")
def test_each_side_counts_its_own_requests() -> None:
    both = 0
    for transcript in transcripts(versions=LEGACY):
        for messages in connections(transcript):
            opened: set[Any] = set()
            asked = 0
            for one in messages:
                id = one.message.get("id")
                if one.frame.sender == "client" and not one.is_response and id is not None:
                    opened.add(typed(id))
                elif one.frame.sender == "server" and one.is_response:
                    opened.discard(typed(id))
                elif one.frame.sender == "server" and id is not None:
                    asked += 1
                    assert id == asked, transcript.feature
                    both += typed(id) in opened
    assert both > 5


@pytest.mark.rule("R2")
def test_a_question_does_not_say_to_which_call_it_belongs() -> None:
    questions = [
        one.message
        for transcript in transcripts(versions=LEGACY)
        for one in sent(transcript)
        if one.frame.sender == "server" and {"id", "method"} <= one.message.keys()
    ]
    assert len(questions) > 20
    assert all(question.keys() <= {"jsonrpc", "id", "method", "params"} for question in questions)
    assert not any("_meta" in question.get("params", {}) for question in questions)


@pytest.mark.rule("R12", "R57", "R95")
def test_every_request_has_one_response_with_its_id_unless_it_was_cancelled() -> None:
    for transcript in transcripts():
        for messages in connections(transcript):
            waiting: dict[tuple[str, Any], str] = {}
            for one in messages:
                message, sender = one.message, one.frame.sender
                other = "client" if sender == "server" else "server"
                if one.is_response and "id" in message:
                    waiting.pop((other, typed(message["id"])))
                elif message.get("id") is not None:
                    refused = transcript.feature in ("http-unauthorized", "http-step-up")
                    assert (sender, typed(message["id"])) not in waiting or refused
                    waiting[sender, typed(message["id"])] = message["method"]
                elif message.get("method") == "notifications/cancelled" and one.frame.valid:
                    waiting.pop((sender, typed(message["params"]["requestId"])), None)
            assert set(waiting.values()) == UNANSWERED.get(transcript.feature, set()), transcript.feature


@pytest.mark.rule("R28")
def test_a_call_is_answered_after_its_questions() -> None:
    for transcript in transcripts("elicit-form", "two-rounds", "gather", "sample-tools", "roots", versions=LEGACY):
        for messages in connections(transcript):
            questions: set[Any] = set()
            for one in messages:
                if one.frame.sender == "server" and not one.is_response and "id" in one.message:
                    questions.add(one.message["id"])
                elif one.frame.sender == "client" and one.is_response:
                    questions.remove(one.message["id"])
                elif one.frame.sender == "server" and one.is_response:
                    assert not questions


@pytest.mark.rule("R42", "R54")
def test_who_cancels() -> None:
    for transcript in transcripts("cancel-question"):
        [question] = [one.message for one in sent(transcript) if kind(one, "server", "elicitation/create")]
        [withdrawn] = [one.message for one in sent(transcript) if kind(one, "server", "notifications/cancelled")]
        assert withdrawn["params"]["requestId"] == question["id"]
    for transcript in transcripts(versions=MODERN):
        assert not any(kind(one, "server", "notifications/cancelled") for one in sent(transcript))
    for transcript in transcripts("http-cancel"):
        assert not any(kind(one, "client", "notifications/cancelled") for one in sent(transcript))
        assert transcript.frames[-1].head == ("(closes the connection)",)


@pytest.mark.rule("R75")
def test_on_a_pipe_each_message_is_one_line() -> None:
    lines = [frame.data for transcript in transcripts() for frame in transcript.frames if frame.exchange is None]
    assert len(lines) > 500
    for line in lines:
        assert line is not None and line.endswith(b"\n")
        assert b"\n" not in line[:-1] and b"\r" not in line
        line.decode("utf-8")


@pytest.mark.rule("R92")
def test_initialize_never_gives_a_modern_version() -> None:
    given = {
        one.message["result"]["protocolVersion"]: transcript.version
        for transcript in transcripts()
        for one in sent(transcript)
        if one.method == "initialize" and "result" in one.message and transcript.feature != "unknown-version"
    }
    assert given == {version: version for version in LEGACY}
    [unknown] = transcripts("unknown-version")
    answers = [one.message["result"]["protocolVersion"] for one in sent(unknown) if one.is_response]
    assert answers == [LATEST_LEGACY] * 2


def rounds(messages: list[Sent]) -> Iterator[tuple[Json, Json, Json | None]]:
    """Each result that asks: its request, itself, and the request that brings its state back."""
    asked = [one.message for one in messages if one.frame.sender == "client" and "id" in one.message]
    requests = {message["id"]: message for message in asked}
    for one in messages:
        result = one.message.get("result") if one.frame.sender == "server" else None
        if isinstance(result, dict) and result.get("resultType") == "input_required":
            state = result["requestState"]
            again = [other for other in requests.values() if other["params"].get("requestState") == state]
            yield requests[one.message["id"]], one.message, again[-1] if again else None


@pytest.mark.rule("R100", "R101", "R102", "R103", "R105", "R108")
def test_a_question_ends_its_round_and_the_answer_begins_the_next() -> None:
    states: list[str] = []
    unanswered: list[str] = []
    count = 0
    for transcript in transcripts(versions=MODERN):
        for messages in connections(transcript):
            for request, asked, again in rounds(messages):
                result = asked["result"]
                states.append(result["requestState"])
                assert result.keys() == {"resultType", "inputRequests", "requestState", "_meta"}
                if again is None:  # the person said no, which ends the call at the client
                    unanswered.append(transcript.feature)
                    continue
                count += 1
                own = {"_meta", "inputResponses", "requestState"}
                before, after = ({k: v for k, v in one["params"].items() if k not in own} for one in (request, again))
                assert (request["method"], before) == (again["method"], after)
                assert again["id"] != request["id"]
                assert again["params"]["inputResponses"].keys() == result["inputRequests"].keys()
            for one in messages:
                params = one.message.get("params", {})
                assert ("inputResponses" in params) == ("requestState" in params)
    assert count > 20 and unanswered == ["sample"]
    assert len(set(states)) == len(states)


@pytest.mark.rule("R109", "R110")
def test_a_state_that_does_not_belong_there_is_refused_in_one_way() -> None:
    [transcript] = transcripts("state-rejected")
    asked, moved, changed, good = [one.message for one in sent(transcript) if one.is_response]
    assert moved["error"] == changed["error"] and moved["error"]["code"] == -32602
    assert good["result"]["resultType"] == "complete"


@pytest.mark.rule("R15", "R16", "R17", "R19")
def test_what_a_client_did_not_declare_is_not_asked() -> None:
    for transcript in transcripts("missing-capability"):
        for one in sent(transcript):
            assert one.frame.sender == "client" or one.is_response
            if one.method not in ("tools/call", "prompts/get") or one.frame.sender == "client":
                continue
            if transcript.version in MODERN:
                assert one.message["error"]["code"] == -32021
            elif one.method == "tools/call":
                assert one.message["result"]["isError"]
            else:
                assert one.message["error"]["code"] == -32602


@pytest.mark.rule("R128")
def test_what_the_model_can_correct_is_a_result() -> None:
    for transcript in transcripts("tools-call"):
        *_, failed, bad, unknown = [one.message for one in sent(transcript) if one.is_response]
        assert failed["result"]["isError"] and bad["result"]["isError"]
        assert unknown["error"]["code"] == -32602


@pytest.mark.rule("R135", "R138")
def test_a_change_of_a_list_has_no_content() -> None:
    changes = 0
    for transcript in transcripts():
        for one in sent(transcript):
            if one.frame.sender == "server" and str(one.method).endswith("/list_changed"):
                changes += 1
                params = one.message.get("params", {})
                if transcript.version in MODERN:
                    assert params.keys() == {"_meta"}
                    assert params["_meta"].keys() == {f"{ENVELOPE}subscriptionId"}
                else:
                    assert "params" not in one.message
    assert changes > 12
    for transcript in transcripts("resources-subscribe", "listen"):
        updates = [one.message for one in sent(transcript) if one.method == "notifications/resources/updated"]
        assert [update["params"]["uri"] for update in updates] == ["note://1"]


@pytest.mark.rule("R139")
def test_log_messages_are_those_that_were_wanted() -> None:
    for transcript in transcripts("logging"):
        told: list[list[str]] = []
        for one in sent(transcript):
            if kind(one, "client", "tools/call"):
                told.append([])
            elif one.method == "notifications/message":
                told[-1].append(one.message["params"]["level"])
        assert told == [[], ["warning", "error"], ["debug", "warning", "error"]]


@pytest.mark.rule("R140")
def test_progress_is_told_to_whom_asked_and_rises() -> None:
    count = 0
    for transcript in transcripts():
        for messages in connections(transcript):
            reached: dict[Any, float] = {}
            for one in messages:
                params = one.message.get("params") or {}
                if one.frame.sender == "client" and (token := params.get("_meta", {}).get("progressToken")) is not None:
                    reached[typed(token)] = 0
                elif one.method == "notifications/progress":
                    assert params["progress"] > reached[typed(params["progressToken"])]
                    reached[typed(params["progressToken"])] = params["progress"]
                    count += 1
    assert count > 30


@pytest.mark.rule("R148")
def test_the_settings_of_extensions_are_their_own() -> None:
    for transcript in transcripts("bring-up"):
        result = next(one.message["result"] for one in sent(transcript) if one.is_response)
        declared = result["capabilities"]["extensions"]
        assert declared == {"com.example/loans": {"days": 14}, "com.example/plain": {}}
    for transcript in transcripts("bring-up-bare"):
        [result] = [one.message["result"] for one in sent(transcript) if one.is_response]
        assert "extensions" not in result["capabilities"]


@pytest.mark.rule("R161")
def test_every_modern_request_says_its_version_and_what_the_client_can_do() -> None:
    for transcript in transcripts(versions=MODERN):
        for messages in connections(transcript):
            for one in messages:
                if one.frame.sender == "client" and "id" in one.message and one.frame.valid:
                    names = {name for name in one.message["params"]["_meta"] if name.startswith(ENVELOPE)}
                    wanted = {f"{ENVELOPE}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")}
                    assert names - {f"{ENVELOPE}logLevel"} == wanted
    [transcript] = transcripts("unsupported-version")
    codes = [one.message["error"]["code"] for one in sent(transcript) if one.is_response]
    assert codes == [-32022, -32022, -32602]


@pytest.mark.rule("R163")
def test_a_subscription_is_acknowledged_first_and_every_message_says_whose_it_is() -> None:
    ended = 0
    for transcript in transcripts("listen", "listen-lists", "listen-unable", "listen-closed", "http-listen"):
        opened: dict[Any, Json] = {}
        acknowledged: dict[Any, Json] = {}
        for one in sent(transcript):
            message = one.message
            if kind(one, "client", "subscriptions/listen"):
                opened[typed(message["id"])] = message["params"]["notifications"]
            elif one.frame.sender == "server" and "method" in message:
                params = message["params"]
                id = typed(params["_meta"][f"{ENVELOPE}subscriptionId"])
                if id not in acknowledged:
                    assert message["method"] == "notifications/subscriptions/acknowledged"
                    acknowledged[id] = params["notifications"]
                    assert params["notifications"].items() <= opened[id].items()
                else:
                    assert wanted(message, acknowledged[id])
            elif one.method == "subscriptions/listen":
                assert message["result"]["_meta"][f"{ENVELOPE}subscriptionId"] == message["id"]
                ended += 1
        assert acknowledged.keys() == opened.keys()
    assert ended == 2


def wanted(message: Json, filter: Json) -> bool:
    """Whether a notification is one of those that a filter has."""
    if message["method"] == "notifications/resources/updated":
        return message["params"]["uri"] in filter["resourceSubscriptions"]
    area = message["method"].split("/")[1]
    return bool(filter[f"{area}ListChanged"])


@pytest.mark.rule("R164")
def test_lists_and_resources_say_how_long_they_are_good() -> None:
    hints = 0
    for transcript in transcripts(versions=MODERN):
        for messages in connections(transcript):
            retried = {
                one.message["id"]
                for one in messages
                if one.frame.sender == "client" and "requestState" in one.message.get("params", {})
            }
            for one in messages:
                result = one.message.get("result")
                if not isinstance(result, dict) or one.frame.sender == "client":
                    continue
                if one.method in CACHEABLE and result["resultType"] == "complete":
                    hints += 1
                    assert result["ttlMs"] >= 0 and result["cacheScope"] in ("public", "private")
                    if one.message["id"] in retried:
                        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
                else:
                    assert not {"ttlMs", "cacheScope"} & result.keys()
    assert hints > 20


@pytest.mark.rule("R165")
def test_the_id_of_a_page_to_open_exists_at_one_version() -> None:
    for transcript in transcripts("elicit-url"):
        text = transcript.text()
        assert text.count('"mode": "url"') == 2
        assert text.count("elicitationId") == (2 if FEATURES[Version(transcript.version)].url_elicitation_id else 0)


@pytest.mark.rule("R166")
def test_a_ping_is_answered_before_the_session_is_up() -> None:
    for transcript in transcripts("ping"):
        _, _, ask, pong = list(sent(transcript))[:4]
        assert ask.message["id"] == pong.message["id"] == "alive?" and pong.message["result"] == {}


@pytest.mark.rule("R167")
def test_a_form_is_written_as_its_version_has_it() -> None:
    for transcript in transcripts("elicit-fields"):
        text, titled = transcript.text(), FEATURES[Version(transcript.version)].form == "titled"
        assert ('"enumNames"' in text, '"oneOf"' in text) == (not titled, titled)
        assert ('"default": "quiet"' in text) == titled
        assert ('"mode": "form"' in text) == titled
