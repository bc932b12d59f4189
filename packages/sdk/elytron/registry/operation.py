"""Declaration of an operation, in one place."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from elytron_core.contracts.admin.inspection import MemoryCloseRequest
from elytron_core.model import Request, Value

if TYPE_CHECKING:
    from elytron.context import OperationContext

RequestT = TypeVar("RequestT", bound=Request | MemoryCloseRequest)
ReportT = TypeVar("ReportT", bound=Value)


class Role(StrEnum):
    """The role that an operation requires of its caller."""

    MEMBER = "member"
    """Callers that may use the space."""
    OPERATOR = "operator"
    """The machine's operator: it reads or writes its files, or ends the runtime."""


class Repeat(StrEnum):
    """Mechanism that keeps a repeated call, under one idempotency key, from acting twice."""

    HARMLESS = "harmless"
    """Nothing has to: it changes no memory."""
    STORE = "store"
    """The store: the key travels with the request into its commit."""
    RECEIPT = "receipt"
    """A receipt, written after the effect."""


class Grave(StrEnum):
    """Why a model is not to call an operation unasked."""

    REMOVES = "removes for good"
    TAKES_OUT = "takes the memory out"
    AGREES = "agrees for the owner of the memory"


@dataclass(frozen=True, slots=True)
class Operation(Generic[RequestT, ReportT]):
    """One operation: its request, its report, the function that performs it, and its description.

    `operator_fields` are fields of the request that only an operator may set, `operator_values` values of a field that
    only an operator may ask for; `private_values` are those that ask for private memories. A model may not make
    a `grave` call unasked: any, or if there are `grave_values` one whose field has such a value. One that `is_local`
    acts on the runtime of its own process and is called there alone: no transport over a wire has it.
    """

    name: str
    request: type[RequestT]
    report: type[ReportT]
    performer: Callable[[], Callable[["OperationContext", RequestT], Awaitable[ReportT]]]
    """Gives the function that performs it, whose module is loaded then: who calls one operation loads no other."""
    summary: str
    mutates: bool = False
    role: Role = Role.MEMBER
    repeat: Repeat = Repeat.HARMLESS
    is_local: bool = False
    operator_fields: frozenset[str] = frozenset()
    operator_values: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    private_values: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    grave: Grave | None = None
    grave_values: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    @property
    def perform(self) -> Callable[["OperationContext", RequestT], Awaitable[ReportT]]:
        """Return the function that performs it."""
        return self.performer()

    def beyond_members(self, request: RequestT, /) -> tuple[str, ...]:
        """Return what of `request` only an operator may ask for."""
        fields = [name for name in self.operator_fields if getattr(request, name)]
        values = [
            f"{name} {getattr(request, name)}"
            for name, reserved in self.operator_values.items()
            if getattr(request, name) in reserved
        ]
        return tuple(sorted((*fields, *values)))

    def asks_private(self, request: RequestT, /) -> bool:
        """Return whether `request` asks for what a model is shown only if its host wants that."""
        asked = {"private_context": frozenset({"allowed"}), **self.private_values}
        by_value = any(getattr(request, name, None) in values for name, values in asked.items())
        return by_value or getattr(request, "include_private", False) is True

    def is_grave(self, asked: Mapping[str, object], /) -> bool:
        """Return whether the request `asked`, in JSON, is not to be made unasked."""
        if self.grave is None or asked.get("dry_run") is True:
            return False
        found = [(asked.get(name), grave) for name, grave in self.grave_values.items()]
        return not found or any(isinstance(value, str) and value in grave for value, grave in found)


AnyOperation = Operation[Any, Any]
