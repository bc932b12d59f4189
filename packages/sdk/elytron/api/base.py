"""Base of every face: a request is performed, here or elsewhere, and its report comes back."""

from abc import ABC, abstractmethod
from typing import NoReturn, TypeVar

from elytron_core.model import Value
from elytron_core.scope import Scope

ReportT = TypeVar("ReportT", bound=Value)


NOT_CARRIED = "a memory is neither copied nor pickled: open it in the process that uses it"


class Face(ABC):
    """Calls of one family. Each builds a typed request and hands it to `operate`; no call does work of its own."""

    @property
    @abstractmethod
    def scope(self) -> Scope | None:
        """Return the scope of calls that name none."""

    @abstractmethod
    async def operate(self, request: Value, report: type[ReportT], /) -> ReportT:
        """Perform the operation that takes `request` and return what it reports. Raises Unsupported.

        >>> report = memory.operate(elytron.MemoryRecallRequest(query="boat key"), elytron.MemoryRecallReport)
        >>> report.hits[0].text
        'The boat key is under the oar.'
        """

    def __reduce__(self) -> NoReturn:
        raise TypeError(NOT_CARRIED)
