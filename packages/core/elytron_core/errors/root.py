"""The root of the tree of errors."""

import copyreg
from typing import Any, ClassVar


class ElytronError(Exception):
    """The root. `key` is stable across versions and transports; `retryable` says whether trying again can help."""

    key: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    told: ClassVar[tuple[str, ...]] = ()
    """Attributes in `details`."""
    retry_after_s: int = 0
    """Wait before a repeat that the server asks for; 0: not given."""

    def __init__(self, message: str, /) -> None:
        super().__init__(message)
        self.message = message

    def details(self) -> dict[str, str | int]:
        """Return what a machine may want beside the key; no secret, no content."""
        return {name: getattr(self, name) for name in self.told}

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process makes it of its message and fields: the arguments that made these are not kept.
        return vars(copyreg)["__newobj__"], (type(self), *self.args), self.__dict__
