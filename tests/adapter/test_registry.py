"""The registry is the single list of operations, and it is accurate."""

import inspect
import typing

import pytest

from elytron import SyncMemoryRuntime
from elytron.api import MemoryFace
from elytron.api.calls import REQUEST_ATTRIBUTE
from elytron.context import OperationContext
from elytron.registry import OPERATIONS, AnyOperation, RepeatGuard, by_name, by_request
from elytron_core.errors import Unsupported
from elytron_core.scope import Scope


def test_names_are_unique_and_can_be_looked_up() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert sorted(set(names)) == sorted(names)
    assert [by_name(name) for name in names] == list(OPERATIONS)


def test_an_unknown_name_is_rejected_without_echoing_it() -> None:
    with pytest.raises(Unsupported) as refused:
        by_name("s3cret")
    assert "s3cret" not in refused.value.message


def test_an_operation_is_found_by_its_request_type() -> None:
    for operation in OPERATIONS:
        assert by_request(operation.request.model_construct()) is operation
    with pytest.raises(Unsupported, match="no operation takes Scope"):
        by_request(Scope.model_construct())  # pyright: ignore[reportArgumentType]


def types_of(call: object) -> tuple[object, object]:
    hints = typing.get_type_hints(call)
    report = hints.pop("return")
    return next(iter(hints.values()), None), report


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_its_types_match_its_function(operation: AnyOperation) -> None:
    hints = typing.get_type_hints(operation.perform)
    assert list(hints.values()) == [OperationContext, operation.request, operation.report]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_face_has_a_method_for_it(operation: AnyOperation) -> None:
    functions = inspect.getmembers(MemoryFace, inspect.isfunction)
    # `tools` describes calls to a model and makes none
    calls = [call for name, call in functions if not name.startswith("_") and name not in {"operate", "tools"}]
    takers = [
        call.__name__
        for call in calls
        for taken, report in [types_of(call)]
        if report is operation.report
        and operation.request in {taken, getattr(call, REQUEST_ATTRIBUTE), *typing.get_args(taken)}
    ]
    assert takers
    assert all(hasattr(SyncMemoryRuntime, name) for name in takers)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operations_declaration_is_consistent(operation: AnyOperation) -> None:
    assert operation.summary.endswith(".")
    assert operation.operator_fields <= operation.request.model_fields.keys()
    if not operation.mutates:
        assert operation.repeat is RepeatGuard.HARMLESS
