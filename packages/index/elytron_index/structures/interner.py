"""Strings and sets of strings as small whole numbers, per space. Code 0 is the empty value."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Value = TypeVar("Value", bound=Hashable)
Codes = NDArray[np.int32]


class Interner(Generic[Value]):
    """Gives each distinct value a code, ascending from 0 for the `empty` one."""

    def __init__(self, empty: Value, /) -> None:
        self._codes: dict[Value, int] = {empty: 0}
        self.values: list[Value] = [empty]

    def __len__(self) -> int:
        return len(self.values)

    def code(self, value: Value, /) -> int:
        """Return the code of `value`, a new one where it had none."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def known(self, values: Iterable[Value], /) -> list[int]:
        """Return the codes of those `values` that have one."""
        return [code for value in values if (code := self._codes.get(value)) is not None]

    def shrink(self, column: Codes, /) -> Codes:
        """Keep only the codes that `column` holds, renumber them, and return the column in the new codes."""
        used, renumbered = np.unique(np.append(column, 0), return_inverse=True)
        self.values = [self.values[code] for code in used.tolist()]
        self._codes = {value: code for code, value in enumerate(self.values)}
        return renumbered[:-1].astype(np.int32)

    def load(self, values: Sequence[Value], /) -> None:
        """Take over `values` in the order of their codes."""
        self.values = list(values)
        self._codes = {value: code for code, value in enumerate(self.values)}
