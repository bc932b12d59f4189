"""Base of every face, and its calls: a typed request or plain values, never both.

A request is performed, here or elsewhere, and its report comes back.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from itertools import zip_longest
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    get_args,
    overload,
)

from elytron_core.errors import InvalidInput
from elytron_core.errors.foreign_names import call_instead, require_keywords
from elytron_core.model import OperationRequest, Request, Value
from elytron_core.scope import Scope

P = ParamSpec("P")
ReportT = TypeVar("ReportT", bound=Value)
RequestT = TypeVar("RequestT", bound=OperationRequest[Any])
AnyRequestT = TypeVar("AnyRequestT", bound=Request)
ResultT = TypeVar("ResultT")
Async = Coroutine[Any, Any, ReportT]

NOT_CARRIED = "a memory is neither copied nor pickled: open it in the process that uses it"
TAKEN = "request_type"
"""Attribute of a call whose arguments are checked: the request that it takes in the place of plain values, or None."""


class BoundCall(Generic[RequestT, P, ResultT]):
    """A call of a memory: it takes its request alone, or plain values."""

    @overload
    def __call__(self, request: RequestT, /) -> ResultT: ...

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> ResultT: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class FaceCall(Generic[RequestT, P, ResultT]):
    """A call as a face declares it."""

    @overload
    def __get__(self, face: None, owner: type[object], /) -> Self: ...

    @overload
    def __get__(self, face: object, owner: type[object], /) -> BoundCall[RequestT, P, ResultT]: ...

    def __get__(self, face: object, owner: type[object], /) -> object: ...


def takes_request(
    request: type[RequestT], /
) -> Callable[[Callable[Concatenate[Any, P], Async[ReportT]]], FaceCall[RequestT, P, Async[ReportT]]]:
    """Have a method, which takes plain values, take `request` in their place too, and return what that reports."""

    def decorate(method: Callable[Concatenate[Any, P], Async[ReportT]]) -> FaceCall[RequestT, P, Async[ReportT]]:
        arguments = _CallArguments(method)

        @wraps(method)
        async def call(face: Any, /, *args: P.args, **kwargs: P.kwargs) -> ReportT:
            given = arguments.request_of(args, kwargs, request)
            if given is None:
                return await method(face, *args, **kwargs)
            return await face.operate(given)

        setattr(call, TAKEN, request)
        return cast("FaceCall[RequestT, P, Async[ReportT]]", call)

    return decorate


def _guard_request(method: Callable[..., Async[Any]]) -> Callable[..., Async[Any]]:
    """Return a method that takes no request in the place of plain values, with its arguments checked."""
    arguments = _CallArguments(method)
    first = next(iter(method.__annotations__.values()), None)
    kinds = [each for each in (first, *get_args(first)) if isinstance(each, type) and issubclass(each, Request)]
    kind = kinds[0] if kinds else None

    @wraps(method)
    async def call(face: object, /, *args: object, **kwargs: object) -> object:
        arguments.request_of(args, kwargs, kind)
        return await method(face, *args, **kwargs)

    setattr(call, TAKEN, None)
    return call


class _CallArguments:
    """The parameters of one call, and what is refused of its arguments before it is made."""

    def __init__(self, method: Callable[..., Any]) -> None:
        # Without the name of its class, which is no word of the caller's: Python names it in errors.
        method.__qualname__ = self._name = method.__name__
        code = method.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        self._names = code.co_varnames[1 : code.co_argcount]
        self._keywords = frozenset(code.co_varnames[code.co_posonlyargcount : count]) - {"self"}

    def request_of(
        self, args: Sequence[object], kwargs: Mapping[str, object], kind: type[AnyRequestT] | None
    ) -> AnyRequestT | None:
        """Return the request among the arguments; None if there is none.

        Raises InvalidInput for a request with anything beside it, and for one that is not of `kind`, TypeError for a
        keyword that the call does not have.
        """
        request = next((value for value in (*args, *kwargs.values()) if isinstance(value, Request)), None)
        if request is None:
            require_keywords(self._name, kwargs, self._keywords)
            return None
        shown = type(request).__name__
        given = [*zip_longest(self._names[: len(args)], args, fillvalue="values"), *kwargs.items()]
        if beside := [str(name) for name, value in given if value is not request]:
            problem = f"cannot stand beside a {shown}: a call takes a request or plain values, so put them into it"
            raise InvalidInput(field=", ".join(beside), problem=problem)
        if kind is None or not isinstance(request, kind):
            wanted = f"a {kind.__name__}" if kind is not None else "plain values"
            raise InvalidInput(field="the request", problem=f"is a {shown}, and {self._name} takes {wanted}")
        return request


def no_call(memory: object, name: str, /) -> AttributeError:
    """Return the error for a call that `memory` does not have, with the one that is meant."""
    known = [each for each in dir(type(memory)) if not each.startswith("_")]
    instead = "" if name.startswith("_") else call_instead(name, known)
    return AttributeError(f"a memory has no {name!r}{instead}", name=name, obj=memory)


class CallFace(ABC):
    """Calls of one family. Each builds a typed request and hands it to `operate`; no call does work of its own."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Check the arguments of each public call before it is made; so no call of any face can forget to."""
        super().__init_subclass__(**options)
        for name, member in list(vars(cls).items()):
            is_call = iscoroutinefunction(member) and not name.startswith("_") and name != "operate"
            if is_call and not hasattr(member, TAKEN):
                setattr(cls, name, _guard_request(member))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_call(self, name)

    @property
    @abstractmethod
    def scope(self) -> Scope | None:
        """Return the scope of calls that name none."""

    @abstractmethod
    async def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Perform the operation that takes `request` and return what it reports. Raises Unsupported.

        >>> report = memory.operate(elytron.MemoryRecallRequest(query="boat key"))
        >>> report.hits[0].text
        'The boat key is under the oar.'
        """

    def __reduce__(self) -> NoReturn:
        raise TypeError(NOT_CARRIED)


class BlockingCalls(ABC):
    """Calls of a face that wait for their answer: of each family the same names, made of the same methods."""

    runtime: Any
    """The face whose calls these are."""

    @abstractmethod
    def run(self, call: Coroutine[Any, Any, ResultT], /) -> ResultT:
        """Run `call` where the face lives and return its result."""


@overload
def blocking_call(method: FaceCall[RequestT, P, Coroutine[Any, Any, ResultT]]) -> FaceCall[RequestT, P, ResultT]: ...


@overload
def blocking_call(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[Any, P], ResultT]: ...


def blocking_call(method: Any) -> Any:
    """Return `method` as a call that waits for its answer."""

    @wraps(method)
    def call(self: BlockingCalls, /, *args: Any, **kwargs: Any) -> Any:
        # By its name: a face of its own kind may do it in its own way.
        return self.run(getattr(self.runtime, method.__name__)(*args, **kwargs))

    return call
