"""The registry is the one list of operations, and it is true."""

import typing

import pytest

from elytron import MemoryRuntime
from elytron_adapter.registry import OPERATIONS, AnyOperation, Repeat, by_name, by_request
from elytron_core.errors import Unsupported
from elytron_core.scope import Scope


def test_names_are_each_there_once_and_found() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert sorted(set(names)) == sorted(names)
    assert [by_name(name) for name in names] == list(OPERATIONS)


def test_an_unknown_name_is_refused_without_repeating_it() -> None:
    with pytest.raises(Unsupported) as refused:
        by_name("s3cret")
    assert "s3cret" not in refused.value.message


def test_an_operation_is_found_by_what_it_takes() -> None:
    for operation in OPERATIONS:
        assert by_request(operation.request.model_construct()) is operation
    with pytest.raises(Unsupported, match="no operation takes a Scope"):
        by_request(Scope.model_construct())


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_types_are_those_of_the_runtimes_method(operation: AnyOperation) -> None:
    hints = typing.get_type_hints(operation.call)
    report = hints.pop("return")
    taken = next(iter(hints.values()))
    assert report is operation.report
    assert taken is operation.request or operation.request in typing.get_args(taken)
    assert getattr(MemoryRuntime, operation.call.__name__) is operation.call


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_what_is_said_of_an_operation_holds_together(operation: AnyOperation) -> None:
    assert operation.summary.endswith(".")
    assert operation.operator_fields <= operation.request.model_fields.keys()
    if not operation.mutates:
        assert operation.repeat is Repeat.HARMLESS
