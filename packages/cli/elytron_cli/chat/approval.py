"""Approval of calls in a conversation: a person is asked, or a rule answers."""

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from elytron_core.errors import InvalidInput

if TYPE_CHECKING:
    from elytron_agent.runs.approval import Approval, ApprovalRequest, Approve
    from elytron_cli.chat.line_input import LineInput
    from elytron_cli.chat.screen import Screen

QUESTION: Final = "  yes, no, or always in this chat? [y/n/a]"
NONE: Final = "no tool that may change something is approved in this chat"


class ApprovalMode(StrEnum):
    """Way of approving calls of tools that may change something."""

    ASK = "ask"
    """The person at the terminal."""
    ALL = "all"
    NONE = "none"


def approver(mode: ApprovalMode | None, lines: "LineInput", screen: "Screen", /) -> "Approve | None":
    """Return what answers whether a call is made; None if all are. Raises InvalidInput for `ask` without a terminal."""
    match mode or (ApprovalMode.ASK if lines.is_terminal else ApprovalMode.NONE):
        case ApprovalMode.ALL:
            return None
        case ApprovalMode.NONE:
            return _refuse
        case ApprovalMode.ASK:
            if not lines.is_terminal:
                raise InvalidInput(field="--approve", problem="is `ask`, and there is no terminal: say all or none")
            return _Person(lines, screen).approve


async def _refuse(_request: "ApprovalRequest", /) -> "Approval":
    from elytron_agent.runs.approval import Approval

    return Approval(is_granted=False, reason=NONE)


class _Person:
    """The person at the terminal, and the tools that always may be called in this chat."""

    def __init__(self, lines: "LineInput", screen: "Screen", /) -> None:
        self._lines, self._screen = lines, screen
        self._always: set[str] = set()

    async def approve(self, request: "ApprovalRequest", /) -> bool:
        """Return the person's answer; what is not a clear yes is a no."""
        from elytron_cli.chat.screen import ApprovalAsked

        if request.tool in self._always:
            return True
        self._screen.ask(ApprovalAsked(tool=request.tool, arguments=request.arguments))
        answer = (await self._lines.answer(QUESTION)).strip().lower()
        if answer in {"a", "always"}:
            self._always.add(request.tool)
        return answer in {"y", "yes", "a", "always"}
