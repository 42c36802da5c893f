"""The parameter style: `size: Annotated[Size, Elicit("Which size for {item}?")]` is asked before the function runs."""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any, get_args, get_origin

from typing_extensions import is_protocol, is_typeddict

from ..errors import ConfigurationError
from ..protocol.types.sampling import CreateMessageResult
from .asks import Ask, Sample
from .context import Context
from .inputs import Inputs
from .outcomes import Accepted, Outcome
from .question import Question, Where, gather
from .signature import annotated, is_union

_OUTCOMES = {get_origin(member) or member for member in get_args(Outcome)}


class ParameterQuestion:
    """What one parameter asks.

    name: of the parameter, and the key of the question.  needs: the parameters that it mentions.
    """

    def __init__(self, name: str, ask: Ask[Any], wanted: Any, what: str):
        self.name = name
        self._ask = ask
        self._what = what
        self._outcome = is_union(wanted) and any(
            (get_origin(member) or member) in _OUTCOMES for member in get_args(wanted)
        )
        self._kind = _accepted(wanted) if self._outcome else wanted
        self._text = isinstance(ask, Sample) and wanted is str
        self._context: str | None = None
        if ask.by is None:
            self.needs = frozenset(_mentioned(ask.template, what))
            self._typed(ask)  # what a form cannot express is told now
        else:
            self._context, self.needs = _takes(ask.by)

    async def decide(self, context: Context, arguments: dict[str, Any]) -> Any:
        """The question to ask, or the answer where there is nothing to ask. arguments: at least what it `needs`."""
        if self._ask.by is None:
            return self._typed(self._ask.worded(arguments) if self.needs else self._ask)
        given = {name: arguments[name] for name in self.needs}
        if self._context is not None:
            given[self._context] = context
        decided = self._ask.by(**given)
        decided = await decided if inspect.isawaitable(decided) else decided
        return self._typed(decided) if isinstance(decided, Ask) else decided

    def value(self, answer: Any) -> Any:
        """What the parameter gets for an answer. Raises: Refused."""
        if self._text and isinstance(answer, CreateMessageResult):
            return answer.text
        is_outcome = type(answer) in _OUTCOMES
        if self._outcome:
            return answer if is_outcome else Accepted(answer)
        return answer.unwrap() if is_outcome else answer

    def _typed(self, ask: Ask[Any]) -> Ask[Any]:
        try:
            asking = ask.wanting(self._kind)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self._what}: {error}") from error
        if (gives := asking.gives()) and not _agree(self._kind, gives):
            names = " or ".join(dict.fromkeys(getattr(kind, "__name__", str(kind)) for kind in gives))
            wanted = getattr(self._kind, "__name__", str(self._kind))
            raise ConfigurationError(
                f"{self._what} is annotated with {wanted}, and its question gives {names}: say what is wanted once, in "
                "the annotation"
            )
        return asking


class ParameterQuestions:
    """What the parameters of one function ask. Those that need no other's answer are asked in one round."""

    def __init__(self, questions: dict[str, ParameterQuestion], where: Where):
        self._questions = questions
        self._where = where

    @classmethod
    def of(cls, function: Callable[..., Any]) -> ParameterQuestions:
        """Read the signature of `function`. Raises: ConfigurationError."""
        found, names = {}, []
        for parameter, annotation in annotated(function, Context):
            names.append(parameter.name)
            what = f"{getattr(function, '__name__', function)}(): parameter {parameter.name!r}"
            if (ask := _asked(annotation, parameter.default, what)) is not None:
                found[parameter.name] = ParameterQuestion(parameter.name, ask, get_args(annotation)[0], what)
        code = getattr(inspect.unwrap(function), "__code__", None)
        questions = cls(found, (code.co_filename, code.co_firstlineno) if code is not None else ("?", 0))
        questions._check(names)
        return questions

    @property
    def names(self) -> Collection[str]:
        """The parameters that ask, which no client can supply."""
        return self._questions.keys()

    async def answer(self, context: Context, inputs: Inputs, arguments: dict[str, Any]) -> None:
        """Ask, and put the answers beside the other arguments. Raises: as asking does; Refused."""
        for ready in self._rounds():
            made: dict[str, Question[Any]] = {}
            for question in ready:
                decided = await question.decide(context, arguments)
                if isinstance(decided, Ask):
                    made[question.name] = inputs.ask(decided, self._where, key=question.name)
                else:
                    arguments[question.name] = question.value(decided)
            answers = await gather(list(made.values()))
            for name, answer in zip(made, answers, strict=True):
                arguments[name] = self._questions[name].value(answer)

    def _rounds(self) -> Iterator[list[ParameterQuestion]]:
        """The questions, each after those that it needs."""
        waiting = list(self._questions.values())
        while waiting:
            left = {question.name for question in waiting}
            ready = [question for question in waiting if not question.needs & left]
            if not ready:
                raise ConfigurationError(f"the questions of the parameters {', '.join(sorted(left))} need each other")
            yield ready
            waiting = [question for question in waiting if question not in ready]

    def _check(self, names: Collection[str]) -> None:
        for question in self._questions.values():
            if unknown := sorted(question.needs - set(names)):
                raise ConfigurationError(
                    f"{question._what}: the question mentions {', '.join(unknown)}, which is no parameter of the "
                    f"function; a brace in a text is written twice"
                )
        list(self._rounds())


def _asked(annotation: Any, default: Any, what: str) -> Ask[Any] | None:
    """The question in an annotation."""
    asks = [item for item in get_args(annotation)[1:] if _is_ask(item)] if get_origin(annotation) is Annotated else []
    if _is_ask(default) or any(map(_hides_ask, get_args(annotation))) or len(asks) > 1:
        raise ConfigurationError(f"{what}: a question stands as Annotated[type, Elicit(...)], once, around everything")
    if asks and default is not inspect.Parameter.empty:
        raise ConfigurationError(
            f"{what} asks, so it has no default: give the form one, or annotate Outcome[...] to go on without an answer"
        )
    if asks and isinstance(asks[0], type):
        name = asks[0].__name__
        raise ConfigurationError(f"{what}: {name} is the class, and no question yet: write {name}(...)")
    return asks[0] if asks else None


def _is_ask(item: Any) -> bool:
    return isinstance(item, Ask) or (isinstance(item, type) and issubclass(item, Ask))


def _hides_ask(part: Any) -> bool:
    return any(_is_ask(item) or _hides_ask(item) for item in get_args(part))


def _agree(wanted: Any, gives: tuple[Any, ...]) -> bool:
    """Whether a parameter of type `wanted` can take a value of one of these types; True where that is not plain."""
    members = [_class(member) for member in (get_args(wanted) if is_union(wanted) else (wanted,))]
    pairs = [(_class(kind), member) for kind in gives for member in members]
    return any(
        kind is None or member is None or issubclass(kind, member) or (kind, member) == (int, float)
        for kind, member in pairs
    )


def _class(kind: Any) -> type | None:
    """The class of the values of a type; None where that is not plain."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if is_typeddict(kind):
        return dict
    found = get_origin(kind) or kind
    plain = isinstance(found, type) and found is not Any and not is_union(kind) and not is_protocol(found)
    return found if plain else None


def _accepted(wanted: Any) -> Any:
    """T of Outcome[T]."""
    return next((get_args(member)[0] for member in get_args(wanted) if get_origin(member) is Accepted), Any)


def _mentioned(text: str, what: str) -> Iterator[str]:
    """The parameters in the braces of a text."""
    try:
        for _, field, spec, _ in string.Formatter().parse(text):
            if spec and "{" in spec:
                raise ValueError(f"the format {spec!r} takes no parameters")
            if field is not None:
                yield field.partition(".")[0].partition("[")[0]
    except ValueError as error:
        raise ConfigurationError(f"{what}: the text of the question: {error}; a brace is written twice") from None


def _takes(function: Callable[..., Any]) -> tuple[str | None, frozenset[str]]:
    """The parameter of a function that takes the Context, and the others."""
    context, names = None, set()
    for parameter, annotation in annotated(function, Context):
        if annotation is Context:
            context = parameter.name
        else:
            names.add(parameter.name)
    return context, frozenset(names)
