"""The journal: places, what matches on replay, what takes an answer."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.errors import INVALID_PARAMS, JournalMismatch
from backchannel.protocol.journal import STEP, Entry, Journal, Status

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"


def again(journal: Journal) -> Journal:
    """The journal as the next round gets it."""
    return Journal.load(journal.dump())


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def value(entry: Entry) -> Any:
    return msgspec.json.decode(entry.value)


def record(entry: Entry, value: Any, status: Status = Status.DONE) -> None:
    """Record what a step gave."""
    entry.value, entry.status = raw(value), status


def asked(*texts: str, kind: str = ELICIT) -> Journal:
    """A journal in the round after these questions were asked."""
    journal = Journal()
    for text in texts:
        journal.place(kind, text)
    return again(journal)


# Places.


@pytest.mark.rule("P1")
def test_places_are_taken_in_the_order_of_the_calls() -> None:
    journal = Journal()
    entries = [journal.place(kind, "text") for kind in (ELICIT, STEP, SAMPLE, ROOTS, ELICIT, "acme/ask")]
    assert [entry.key for entry in entries] == ["elicit-1", "step-2", "sample-3", "roots-4", "elicit-5", "acme/ask-6"]
    assert [entry.key for entry in journal.open_questions] == [
        "elicit-1",
        "sample-3",
        "roots-4",
        "elicit-5",
        "acme/ask-6",
    ]
    following = again(journal)
    assert following.open_questions == []  # nothing is asked yet in this round
    assert following.place(ELICIT, "text").key == "elicit-1"


@pytest.mark.rule("P2")
def test_what_has_a_key_is_matched_by_it_in_any_order() -> None:
    journal = Journal()
    journal.place(ELICIT, "a", key="a")
    journal.place(ELICIT, "own")
    journal.place(STEP, "b", key="b")
    journal.fill({"a": raw(1), "elicit-1": raw(2)})
    following = again(journal)
    assert following.place(STEP, "b", key="b").status is Status.OPEN
    assert value(following.place(ELICIT, "own")) == 2
    assert value(following.place(ELICIT, "a", key="a")) == 1


@pytest.mark.rule("P2")
def test_a_key_is_taken_once_a_round() -> None:
    journal = Journal()
    journal.place(ELICIT, "a", key="k")
    with pytest.raises(ValueError, match="'k' is used twice"):
        journal.place(STEP, "b", key="k")
    assert again(journal).place(ELICIT, "a", key="k").key == "k"


def test_a_key_of_the_authors_and_one_of_ours_do_not_meet() -> None:
    journal = Journal()
    journal.place(ELICIT, "theirs", key="elicit-1")
    assert journal.place(ELICIT, "ours").key == "elicit-1_"
    journal = asked("ours")
    with pytest.raises(ValueError, match="'elicit-1' is used twice"):
        journal.place(ELICIT, "ours", key="elicit-1")


def test_questions_are_open_in_the_order_in_which_this_round_asks_them() -> None:
    journal = Journal()
    for key in "abc":
        journal.place(ELICIT, key, key=key)
    following = again(journal)
    for key in "cab":
        following.place(ELICIT, key, key=key)
    assert [entry.key for entry in following.open_questions] == ["c", "a", "b"]


# Matching.


@pytest.mark.rule("P6")
@pytest.mark.parametrize(
    ("kind", "text", "digest", "key", "matches"),
    [
        (ELICIT, "size?", "s", None, True),
        (SAMPLE, "size?", "s", None, False),
        (STEP, "size?", "s", None, False),
        (ELICIT, "colour?", "s", None, False),
        (ELICIT, "size?", "t", None, False),
        (ELICIT, "size?", "s", "k", True),
        (ELICIT, "colour?", "s", "k", True),  # a clock in the text does no harm
        (SAMPLE, "size?", "s", "k", False),
        (ELICIT, "size?", "t", "k", False),
    ],
)
@pytest.mark.parametrize("status", [Status.DONE, Status.FAILED])
def test_what_was_answered_is_never_used_for_another_question(
    kind: str, text: str, digest: str, key: str | None, matches: bool, status: Status
) -> None:
    journal = Journal()
    record(journal.place(ELICIT, "size?", "s", key), "large", status)
    journal = again(journal)
    if matches:
        entry = journal.place(kind, text, digest, key)
        assert (value(entry), entry.status) == ("large", status)
        return
    before = journal.dump()
    with pytest.raises(JournalMismatch) as caught:
        journal.place(kind, text, digest, key)
    assert caught.value.code == INVALID_PARAMS
    assert caught.value.recorded == "elicit 'size?'" and caught.value.asked != caught.value.recorded
    assert caught.value.data == {"recorded": caught.value.recorded, "asked": caught.value.asked}
    assert caught.value.recorded in str(caught.value) and caught.value.asked in str(caught.value)
    assert journal.dump() == before


@pytest.mark.rule("P6")
def test_a_mismatch_names_both_texts_and_the_schema() -> None:
    journal = Journal()
    journal.place(ELICIT, "size?", "s")
    journal.fill({"elicit-1": raw({})})
    with pytest.raises(JournalMismatch) as caught:
        again(journal).place(ELICIT, "size?", "t")
    assert caught.value.asked == "elicit 'size?' with another schema"
    with pytest.raises(JournalMismatch) as caught:
        again(journal).place(STEP, "x" * 1000)
    assert caught.value.asked == f"step '{'x' * 200}…'"


@pytest.mark.rule("P6")
@pytest.mark.parametrize(
    ("kind", "text", "digest"), [(ELICIT, "colour?", "s"), (ELICIT, "size?", "t"), (SAMPLE, "size?", "s")]
)
def test_what_is_still_open_is_replaced_by_what_is_asked_now(kind: str, text: str, digest: str) -> None:
    journal = Journal()
    journal.place(ELICIT, "size?", "s")
    journal.place(ELICIT, "next?", "s")
    journal = again(journal)
    entry = journal.place(kind, text, digest)
    assert (entry.kind, entry.text, entry.digest, entry.status) == (kind, text, digest, Status.OPEN)
    assert entry.key not in ("elicit-1", "elicit-2")
    assert journal.open_questions == [entry] and set(journal.entries) == {entry.key, "elicit-2"}
    journal.fill({"elicit-1": raw("an answer to the old question")})
    assert entry.status is Status.OPEN
    following = again(journal)
    assert following.place(kind, text, digest) == entry
    assert following.place(ELICIT, "next?", "s").key == "elicit-2"


@pytest.mark.rule("P6")
def test_a_place_never_has_the_same_key_for_two_questions() -> None:
    journal, keys = Journal(), []
    for text in ("a", "b", "c", "a", "b"):
        journal = again(journal)
        keys.append(journal.place(ELICIT, text).key)
    assert len(set(keys)) == 5


@pytest.mark.rule("P6")
def test_what_has_a_key_and_is_still_open_is_replaced_under_it() -> None:
    journal = Journal()
    journal.place(ELICIT, "size?", "s", "k")
    journal = again(journal)
    entry = journal.place(SAMPLE, "size?", "", "k")
    assert (entry.key, entry.kind, entry.status) == ("k", SAMPLE, Status.OPEN)
    assert list(again(journal).entries) == ["k"]


@pytest.mark.rule("P6")
def test_a_step_that_did_not_finish_is_done_again_and_one_that_did_is_not() -> None:
    journal = Journal()
    record(journal.place(STEP, "charge"), 42)
    record(journal.place(STEP, "fail"), ["ValueError", "no"], Status.FAILED)
    journal.place(STEP, "cut short")
    journal = again(journal)
    assert value(journal.place(STEP, "charge")) == 42
    failed = journal.place(STEP, "fail")
    assert (failed.status, value(failed)) == (Status.FAILED, ["ValueError", "no"])
    assert journal.place(STEP, "other").status is Status.OPEN


def test_a_round_that_is_cut_short_forgets_nothing() -> None:
    journal = asked("a", "b", "c")
    journal.place(ELICIT, "a")
    journal.fill({"elicit-2": raw("b")})
    following = again(journal)
    assert [following.place(ELICIT, text).status for text in "abc"] == [Status.OPEN, Status.DONE, Status.OPEN]


def test_the_deadline_is_kept() -> None:
    journal = Journal()
    journal.place(ELICIT, "a").deadline = 1700000000.5
    assert again(journal).place(ELICIT, "a").deadline == 1700000000.5


# Answers.


@pytest.mark.rule("P7", "R125")
def test_answers_fill_open_questions_and_nothing_else() -> None:
    journal = Journal()
    record(journal.place(STEP, "done"), 1)
    journal.place(STEP, "open")
    journal.place(ELICIT, "a")
    journal.place(ELICIT, "b", key="b")
    journal.place(ELICIT, "c")
    journal = again(journal)
    journal.fill({"elicit-3": raw("a"), "b": raw("b"), "unknown": raw(0), "step-1": raw(0), "step-2": raw(0)})
    journal.fill({"elicit-3": raw("again"), "b": raw("again")})
    assert set(journal.entries) == {"step-1", "step-2", "elicit-3", "b", "elicit-4"}
    assert value(journal.place(STEP, "done")) == 1
    assert journal.place(STEP, "open").status is Status.OPEN
    assert value(journal.place(ELICIT, "a")) == "a"
    assert value(journal.place(ELICIT, "b", key="b")) == "b"
    missing = journal.place(ELICIT, "c")
    assert journal.open_questions == [missing]  # asked again


def test_an_answer_stays_as_it_came() -> None:
    journal = asked("a")
    journal.fill({"elicit-1": msgspec.Raw(b'{"b" : 1.0,"a":"\\u00fc"}')})
    assert bytes(again(journal).place(ELICIT, "a").value) == b'{"b" : 1.0,"a":"\\u00fc"}'


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"[5]", b'[["x"]]', b'[[["k","kind"]]]', b"[[[1,2,3,4]]]"])
def test_what_is_no_journal_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        Journal.load(data)


def test_an_empty_journal_can_be_loaded() -> None:
    assert again(Journal()).entries == {}


# Any run.


@dataclass(frozen=True)
class Call:
    """One ask or step of a handler."""

    kind: str
    text: str
    digest: str
    key: str | None

    def of(self, journal: Journal) -> Entry:
        return journal.place(self.kind, self.text, self.digest, self.key)

    @property
    def label(self) -> str:
        """Says which question an answer is for. Of one with a key the text does not count."""
        return f"{self.kind} {self.digest} {self.key}" + (f" {self.text}" if self.key is None else "")


CALLS = st.builds(
    Call,
    st.sampled_from([ELICIT, SAMPLE, STEP]),
    st.sampled_from(["one", "two", "three"]),
    st.sampled_from(["", "d"]),
    st.none() | st.sampled_from("abcd"),
)


def distinct(calls: list[Call]) -> list[Call]:
    """Calls that use no key twice."""
    first = {call.key: call for call in reversed(calls)}
    return [call for call in calls if call.key is None or call is first[call.key]]


PROGRAMS = st.lists(CALLS, max_size=8).map(distinct)


def play(journal: Journal, program: list[Call], stops: list[bool]) -> list[Entry] | None:
    """Run a handler until it waits for an open question; steps finish at once. `stops[n]`: it waits for call n before
    it goes on, else only in the end. Returns the entries if all of them are done."""
    entries = []
    for call, stop in zip(program, stops, strict=False):
        entry = call.of(journal)
        entries.append(entry)
        if call.kind == STEP and entry.status is Status.OPEN:
            record(entry, call.label)
        if stop and entry.status is Status.OPEN:
            return None
    return entries if all(entry.status is not Status.OPEN for entry in entries) else None


@pytest.mark.rule("P1", "P6", "P7")
@given(PROGRAMS, st.lists(st.booleans(), min_size=8, max_size=8), st.randoms())
def test_a_handler_that_repeats_itself_gets_every_answer_once(
    program: list[Call], stops: list[bool], random: Any
) -> None:
    journal, told = Journal(), dict[str, str]()
    for _ in range(20):
        entries = play(journal, program, stops)
        if entries is not None:
            break
        questions = {entry.key: entry for entry in journal.open_questions}
        assert questions and not set(questions) & set(told)  # nothing is asked again that was answered
        answers = {key: f"{entry.kind} {entry.text}" for key, entry in questions.items() if random.random() < 0.7}
        told |= answers
        journal = again(journal)
        journal.fill({key: raw(answer) for key, answer in answers.items()} | {"stranger": raw(0)})
    else:
        return  # never answered
    assert [value(entry) for entry in entries] == [
        call.label if call.kind == STEP else f"{call.kind} {call.text}" for call in program
    ]
    assert again(journal).dump() == journal.dump()
    assert play(again(journal), program, stops) == entries  # and any run after it


@pytest.mark.rule("P6", "P7")
@given(st.lists(st.tuples(PROGRAMS, st.lists(st.booleans(), min_size=8, max_size=8)), max_size=6), st.randoms())
def test_whatever_a_handler_does_no_answer_is_used_for_another_question(
    rounds: list[tuple[list[Call], list[bool]]], random: Any
) -> None:
    """Each round runs another program, and the client answers late: under any key that it was ever asked under."""
    journal, seen = Journal(), dict[str, str]()
    for program, stops in rounds:
        for call, stop in zip(program, stops, strict=False):
            try:
                entry = call.of(journal)
            except JournalMismatch:
                return
            if entry.status is not Status.OPEN:
                assert value(entry) == call.label
            elif call.kind == STEP:
                record(entry, call.label)
            else:
                if not entry.named:
                    assert seen.get(entry.key, call.label) == call.label  # a key of ours never has another meaning
                seen[entry.key] = call.label
                if stop:
                    break
        journal = again(journal)
        journal.fill({key: raw(label) for key, label in seen.items() if random.random() < 0.3})
