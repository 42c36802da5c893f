"""What a handler function takes and gives, worked out once, when it is registered (server/tools, Tool).

How it works: the parameters become the fields of a TypedDict that pydantic compiles. A call is validated from its raw
bytes, in strict mode, so that `"5"` is no integer. Strict mode also refuses `1.0` where an integer is wanted, which
JSON Schema allows: such a failure names its place, the number there is written as an integer, and the arguments are
validated again. A valid call pays nothing for that.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator
from decimal import Decimal
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin

import msgspec
from pydantic_core import ErrorDetails, ValidationError
from typing_extensions import TypedDict

from ..errors import ConfigurationError
from ..protocol.types.base import Wire
from ..protocol.types.content import UnknownContent
from .plain import Parameter, plain_arguments
from .results import Media, cut, describe, faults, follow, holds_secret, may_hold_floats
from .results import Output as Output

_scan = msgspec.json.Decoder().decode
_exact = json.JSONDecoder(
    parse_float=lambda text: msgspec.Raw(text.encode()), parse_int=lambda text: msgspec.Raw(text.encode())
)


class BadArguments(Exception):
    """The arguments of a call break the schema. `errors`: one sentence each; the text is for the model to read
    (server/tools, Error Handling: input validation errors are tool execution errors)."""

    def __init__(self, errors: tuple[str, ...], limit: int = 280):
        text = errors[0]
        for count, error in enumerate(errors[1:], 1):
            if len(text) + len(error) > limit:
                text += f"; and {len(errors) - count} more"
                break
            text += f"; {error}"
        super().__init__(text)
        self.errors = errors


class Signature:
    """The parameters and the result of one function. Made by `Signature.of`.

    input_schema: the JSON Schema of the arguments. context: the name of the parameter that takes the Context, or None.
    is_async: calling the function gives an awaitable. output: how its results are described, or None.
    """

    def __init__(
        self, where: str, fields: dict[str, Parameter], namespace: dict[str, Any], inline_refs: bool, lenient: bool
    ) -> None:
        adapter, schema = _describe_arguments(where, fields, namespace, inline_refs)
        definitions = schema.get("$defs", {})
        self._validate = adapter.validator.validate_json
        self._has_floats = may_hold_floats(adapter.core_schema)
        self._names = tuple(schema["properties"])
        self._secret = frozenset(key for key, node in schema["properties"].items() if holds_secret(node, definitions))
        self._lenient = lenient
        self.input_schema: dict[str, Any] = schema
        self.context: str | None = None
        self.is_async = False
        self.output: Output | None = None

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        *,
        context_type: type,
        inline_refs: bool = False,
        exclude: Collection[str] = (),
        passes: Collection[type] = (),
        namespace: dict[str, Any] | None = None,
        describe_result: bool = True,
        lenient: bool = False,
    ) -> Signature:
        """Read the signature of `function`.

        context_type: the Context class. inline_refs: write schemas without `$ref`. exclude: parameters that the server
        supplies. passes: types of results that no schema describes, such as the explicit InputRequired. namespace: more
        names for string annotations. describe_result: False where no output schema is wanted. lenient: where something
        else than a string is expected, a string is read as JSON, for hosts that stringify values.

        Raises: ConfigurationError, which names the parameter, for what no client could supply.
        """
        layers = list(_layers(function))
        where = f"{getattr(layers[-1], '__qualname__', type(function).__name__).rpartition('<locals>.')[2]}()"
        names = _namespace(layers[-1], context_type, namespace or {})
        context, fields, result = _read(function, where, context_type, frozenset(exclude), names)
        signature = cls(where, fields, names, inline_refs, lenient)
        signature.context = context
        if inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(type(function).__call__):
            raise ConfigurationError(
                f"{where} is an async generator: instead of yield, return the result; ctx.progress and ctx.log tell of "
                "what comes before"
            )
        signature.is_async = any(inspect.iscoroutinefunction(layer) for layer in layers)
        if describe_result:
            described = _described(resolve(result, f"{where}: the return annotation", names), tuple(passes))
            signature.output = None if described is None else Output(described, where, names, inline_refs)
        return signature

    def bind(self, arguments: bytes | msgspec.Raw | msgspec.UnsetType | None) -> dict[str, Any]:
        """The keyword arguments for the function, from the JSON object `arguments`. Nothing, or null, means `{}`.

        Raises: BadArguments.
        """
        data = bytes(arguments) if arguments else b"{}"
        try:
            if self._has_floats:
                _scan(data)  # refuses NaN, and numbers too large for a float, which pydantic would take
            return self._validate(data, strict=True)  # type: ignore[no-any-return]
        except ValidationError as error:
            return self._mend(data, error)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadArguments((f"arguments: not valid JSON: {error}",)) from None
        except RecursionError:
            raise BadArguments(("arguments: nested too deeply",)) from None

    def _mend(self, data: bytes, error: ValidationError) -> dict[str, Any]:
        """Write as JSON Schema allows what strict mode refuses, and validate again."""
        if error.errors()[0]["type"] == "json_invalid" and not error.errors()[0]["loc"]:
            raise BadArguments(("arguments: not valid JSON",)) from None
        value = _exact.decode(data.decode())
        if value is None:
            return self.bind(None)
        for _ in range(8):
            if not any([_replace(value, problem, self._lenient) for problem in error.errors(include_url=False)]):
                break
            try:
                return self._validate(msgspec.json.encode(value), strict=True)  # type: ignore[no-any-return]
            except ValidationError as again:
                error = again
        texts = faults(error, value, "arguments", self._secret)
        if any(problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1 for problem in error.errors()):
            texts += (f"allowed: {cut(', '.join(self._names), 200) or 'no arguments'}",)
        raise BadArguments(texts) from None


def resolve(annotation: Any, what: str, names: dict[str, Any]) -> Any:
    """An annotation with all its string parts looked up in `names`. No annotation is Any.

    Raises: ConfigurationError, which begins with `what` and tells the name that is not there.
    """
    if annotation is inspect.Parameter.empty:
        return Any

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["it"]
    except NameError as error:
        missing = error.name or str(error)
        raise ConfigurationError(
            f"{what} mentions {missing!r}, which is not defined where the function is: "
            "define or import it there, and not under TYPE_CHECKING alone"
        ) from None
    except (SyntaxError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{what} cannot be read: {error}") from None


def doc_of(function: Callable[..., Any]) -> str:
    """The docstring of what is behind partials and decorators, without its indentation."""
    return inspect.getdoc(list(_layers(function))[-1]) or ""


def _layers(function: Any) -> Iterator[Any]:
    """The function, and what it wraps: partials, decorated functions, methods, objects with `__call__`."""
    while True:
        yield function
        if isinstance(function, functools.partial):
            function = function.func
        elif (inner := getattr(function, "__wrapped__", None)) is not None:
            function = inner
        elif inspect.ismethod(function):
            function = function.__func__
        elif not inspect.isroutine(function) and not isinstance(function, type) and callable(function):
            function = type(function).__call__
        else:
            return


def _namespace(function: Any, context_type: type, extra: dict[str, Any]) -> dict[str, Any]:
    """The names that the function's annotations can use: its module's, and those of the functions and classes around
    it, as far as they are running now or the function closes over them."""
    around: dict[str, Any] = {}
    module, place = getattr(function, "__globals__", {}), getattr(function, "__qualname__", "")
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is module and place.startswith(f"{frame.f_code.co_qualname}."):
            around = {**frame.f_locals, **around}
        frame = frame.f_back  # type: ignore[assignment]
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    for name, cell in zip(code.co_freevars, cells, strict=True) if code and cells else ():
        with contextlib.suppress(ValueError):  # not assigned yet
            around[name] = cell.cell_contents
    return {context_type.__name__: context_type, **module, **around, **extra}


def _read(
    function: Callable[..., Any], where: str, context_type: type, exclude: frozenset[str], names: dict[str, Any]
) -> tuple[str | None, dict[str, Parameter], Any]:
    """The context parameter, the fields of the arguments, and the return annotation as it is written."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: no signature: {error}") from None
    if isinstance(function, functools.partial):
        exclude |= frozenset(function.keywords)
    texts = _descriptions(doc_of(function), signature.parameters)
    context, fields = None, dict[str, Parameter]()
    for name, parameter in signature.parameters.items():
        what = f"{where}: parameter {name!r}"
        if name in exclude:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigurationError(
                f"{what} is {parameter.kind.description}; arguments come by name, one for each parameter"
            )
        annotation = resolve(parameter.annotation, what, names)
        if name == "ctx" and parameter.annotation is parameter.empty:
            raise ConfigurationError(f"{what} has no annotation: write ctx: {context_type.__name__}")
        if not _is_context(annotation, context_type):
            fields[name] = annotation, parameter.default, texts.get(name)
        elif context is None:
            context = name
        else:
            raise ConfigurationError(f"{what} is a second {context_type.__name__}; {context!r} is one already")
    return context, fields, signature.return_annotation


def annotated(function: Callable[..., Any], context_type: type) -> Iterator[tuple[inspect.Parameter, Any]]:
    """The parameters of a function with their annotations: Any for one that cannot be read, of which `Signature.of`
    tells more."""
    names = _namespace(list(_layers(function))[-1], context_type, {})
    with contextlib.suppress(TypeError, ValueError):  # no signature
        for name, parameter in inspect.signature(function).parameters.items():
            annotation: Any = Any
            with contextlib.suppress(ConfigurationError):
                annotation = resolve(parameter.annotation, name, names)
            yield parameter, annotation


def context_of(function: Callable[..., Any], context_type: type) -> str | None:
    """The name of the parameter that takes the Context, whatever else is annotated with."""
    found = annotated(function, context_type)
    return next((one.name for one, annotation in found if _is_context(annotation, context_type)), None)


def is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _is_context(annotation: Any, context_type: type) -> bool:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation is context_type or (
        is_union(annotation) and set(get_args(annotation)) == {context_type, type(None)}
    )


def _field(annotation: Any, default: Any, text: str | None, what: str) -> Any:
    """One field of the arguments, as a TypedDict has it."""
    from pydantic import PydanticUserError
    from pydantic.fields import Field, FieldInfo

    field = annotation
    try:
        if default is not inspect.Parameter.empty:
            field = Annotated[field, default if isinstance(default, FieldInfo) else Field(default=default)]
        info = FieldInfo.from_annotation(field)
        if text and info.description is None:
            field = Annotated[field, Field(description=text)]
        TypedDict("_", {"it": field})  # type: ignore[operator]
    except (TypeError, PydanticUserError) as error:
        raise ConfigurationError(f"{what} is annotated with what is no type of an argument: {error}") from None
    return field if info.is_required() else NotRequired[field]


_ARGUMENT = re.compile(r"(\s*)(?::param\s+)?\*{0,2}(\w+)(?:\s*\([^)]*\))?\s*:\s+(\S.*)")


def _descriptions(doc: str, names: Collection[str]) -> dict[str, str]:
    """The lines `name: text` of a docstring, with the more indented lines that continue them."""
    found: dict[str, str] = {}
    name, depth = None, 0
    for line in doc.splitlines()[1:]:
        match = _ARGUMENT.match(line)
        if match and match[2] in names:
            name, depth = match[2], len(match[1])
            found[name] = match[3].strip()
        elif name and line.strip() and len(line) - len(line.lstrip()) > depth:
            found[name] += f" {line.strip()}"
        else:
            name = None
    return found


def _describe_arguments(
    where: str, parameters: dict[str, Parameter], namespace: dict[str, Any], inline_refs: bool
) -> tuple[Any, dict[str, Any]]:
    if (found := plain_arguments(parameters)) is not None:
        return found
    fields = {name: _field(*parameter, f"{where}: parameter {name!r}") for name, parameter in parameters.items()}

    def compiled(fields: dict[str, Any], what: str) -> tuple[Any, dict[str, Any]]:
        arguments: Any = TypedDict("Arguments", fields)  # type: ignore[misc]
        arguments.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
        return describe(arguments, what, "validation", namespace, inline_refs)

    try:
        return compiled(fields, where)
    except ConfigurationError:
        for name, field in fields.items():  # which one is it?
            compiled({name: field}, f"{where}: parameter {name!r}")
        raise


def _described(annotation: Any, passes: tuple[type, ...]) -> Any:
    """The part of a return annotation that an output schema describes, or None: text and content blocks need none."""
    members = get_args(annotation) if is_union(annotation) else (annotation,)
    members = tuple(m for m in members if not (isinstance(m, type) and issubclass(m, passes)))
    silent = (Any, None, type(None), str, typing.NoReturn, typing.Never)
    if any(_is_block(member) for member in members) or all(member in silent for member in members):
        return None
    return Union[members]  # noqa: UP007


def _is_block(annotation: Any) -> bool:
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return issubclass(annotation, (Wire, UnknownContent, Media)) or annotation in (list, tuple)
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated or is_union(annotation):
        return any(map(_is_block, parts))
    is_list = isinstance(origin, type) and issubclass(origin, Collection) and not issubclass(origin, dict)
    return is_list and any(part is Any or _is_block(part) for part in parts)


def _replace(value: Any, problem: ErrorDetails, lenient: bool) -> bool:
    """Write the integral float at the place of the problem as an integer, or the string there as the JSON it holds."""
    path, there = follow(problem["loc"], value)
    given, kind = problem["input"], problem["type"]
    if not path or not kind.endswith("_type"):
        return False
    if isinstance(there, msgspec.Raw):
        number = Decimal(bytes(there).decode())
        if kind != "int_type" or not isinstance(given, float) or float(number) != given or not given.is_integer():
            return False
        new: Any = msgspec.Raw(str(int(number)).encode())
    elif lenient and isinstance(given, str) and there == given:
        try:
            if isinstance(_scan(given.encode()), str):
                return False
            new = _exact.decode(given)
        except (ValueError, msgspec.DecodeError, RecursionError):
            return False
    else:
        return False
    parent = follow(tuple(path[:-1]), value)[1]
    parent[path[-1]] = new
    return True
