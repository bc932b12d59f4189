"""Read pickled records as data, with a small interpreter that calls nothing and knows one class.

Python's unpickler runs code that a file names. Here, only values are built, and an object of the named class becomes a
dictionary of its fields. All other instructions are refused.
"""

import pickletools
from typing import Any, Final
from uuid import UUID

from elytron_core.errors import InvalidInput
from elytron_core.strict_json import Json

_STEPS: Final = 500_000
_MARK: Final = object()
_UUID: Final = ("uuid", "UUID")
_SCALARS: Final = frozenset(
    "BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES".split()  # noqa: SIM905
)
_CONSTANTS: Final = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_SKIPPED: Final = frozenset({"PROTO", "FRAME"})
_TUPLES: Final = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _PickledObject:
    """A pickled object: the name of its class, and its stored state."""

    __slots__ = ("name", "state")

    def __init__(self, name: tuple[str, str]) -> None:
        self.name = name
        self.state: dict[Any, Any] = {}


def read_object(data: bytes, name: tuple[str, str], /) -> dict[str, Json]:
    """Return the fields of a pickled object of the class `name`. Raises InvalidInput for anything else."""
    try:
        value = _PickleReader(name).read(data)
    except InvalidInput:
        raise
    # `pickletools` raises these for bytes that are not a pickle.
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise InvalidInput(field="pickle", problem="is damaged") from None
    if not isinstance(value, _PickledObject) or value.name != name:
        raise InvalidInput(field="pickle", problem=f"contains no {name[1]}")
    fields = value.state.get("__dict__", value.state)
    return {key: _plain_value(each) for key, each in fields.items() if isinstance(key, str)}


def _plain_value(value: Any) -> Any:
    if isinstance(value, _PickledObject):
        number = value.state.get("int")
        return str(UUID(int=number)) if value.name == _UUID and isinstance(number, int) else None
    return value


class _PickleReader:
    """A single pass over a pickle, with a stack of values and a memo of values for reuse."""

    def __init__(self, name: tuple[str, str], /) -> None:
        self._names = frozenset({name, _UUID})
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def read(self, data: bytes, /) -> Any:
        """Return the final value of `data`."""
        for step, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if step > _STEPS:
                raise InvalidInput(field="pickle", problem=f"has more than {_STEPS} instructions")
            if opcode.name == "STOP":
                return self._stack.pop()
            self._run(opcode.name, argument)
        raise InvalidInput(field="pickle", problem="has no end")

    def _run(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _SCALARS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            count = _TUPLES[name]
            values = tuple(stack[len(stack) - count :])
            del stack[len(stack) - count :]
            stack.append(values)
        elif name in {"MEMOIZE", "BINPUT", "LONG_BINPUT"}:
            self._memo[len(self._memo) if argument is None else argument] = stack[-1]
        elif name in {"BINGET", "LONG_BINGET"}:
            stack.append(self._memo[argument])
        elif name in {"EMPTY_DICT", "EMPTY_LIST", "EMPTY_SET", "MARK"}:
            stack.append({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_SET": list}.get(name, lambda: _MARK)())
        elif name not in _SKIPPED:
            self._build(name, argument)

    def _build(self, name: str, argument: Any) -> None:
        """Run an instruction that combines values."""
        stack = self._stack
        match name:
            case "TUPLE" | "APPENDS" | "ADDITEMS" | "SETITEMS" | "FROZENSET":
                values = self._after_mark()
                if name in {"TUPLE", "FROZENSET"}:
                    stack.append(tuple(values))
                elif name == "SETITEMS":
                    stack[-1].update(zip(values[::2], values[1::2], strict=True))
                else:
                    stack[-1].extend(values)
            case "APPEND":
                value = stack.pop()
                stack[-1].append(value)
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                stack[-1][key] = value
            case "GLOBAL":
                module, _, attribute = argument.partition(" ")
                stack.append(self._class_name(module, attribute))
            case "STACK_GLOBAL":
                attribute, module = stack.pop(), stack.pop()
                stack.append(self._class_name(module, attribute))
            case "NEWOBJ":
                _, class_name = stack.pop(), stack.pop()
                stack.append(_PickledObject(class_name))
            case "BUILD":
                state = stack.pop()
                stack[-1].state.update(state)
            case _:
                raise InvalidInput(field="pickle", problem=f"contains the unsupported instruction {name}")

    def _after_mark(self) -> list[Any]:
        """Remove the values since the last mark from the stack, together with the mark, and return them."""
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise InvalidInput(field="pickle", problem="is damaged")
        values = self._stack[at + 1 :]
        del self._stack[at:]
        return values

    def _class_name(self, module: object, attribute: object) -> tuple[str, str]:
        for name in self._names:
            if name == (module, attribute):
                return name
        raise InvalidInput(field="pickle", problem="names a class or function that is not part of a stored point")
