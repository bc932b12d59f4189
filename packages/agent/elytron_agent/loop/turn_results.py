"""Results of a running turn that left its window: a line in the place of each, and the tool that reads them again."""

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Final

from pydantic import Field

from elytron_agent.context import limits
from elytron_agent.context.request import reference
from elytron_agent.context.window import WindowTurn
from elytron_agent.runs.evidence import READ_RESULT
from elytron_agent.runs.journal import CallResult, RunRecord, corrected, shown
from elytron_agent.tool import CallKey, Tool, ToolAnswer, ToolArguments, typed_tool
from elytron_core.model import Value
from elytron_core.ports.chat import Message, Reply

_WORD: Final = re.compile(r"\w+")
_ABOUT: Final = (
    "Read results of this turn that were put away. With id: its text from offset on. With query: passages that have "
    "its words, of all results or of the one. With neither: a list of the results."
)


class ShownPart(Value):
    """Part of a running turn that a request shows: without steps before `first`, and with a line for results `away`."""

    first: int = 1
    away: frozenset[tuple[int, int]] = frozenset()
    """Steps and places of the results."""

    @property
    def is_whole(self) -> bool:
        return self.first == 1 and not self.away

    def turn_of(self, record: RunRecord, /) -> WindowTurn:
        """Return the run in the form of the window."""
        items: list[Message] = []
        if self.first > 1:
            told = (
                f"[Steps 1 to {self.first - 1} of this turn are no longer shown: `{READ_RESULT}` reads their results.]"
            )
            items.append(reference(told))
        for reply in record.replies:
            if reply.step >= self.first:
                items.append(Reply(items=reply.items))
                items += [self._shown(each, record.input.run) for each in record.results if each.step == reply.step]
                items += [corrected(reply.correction)] if reply.correction else []
        return record.turn_of(tuple(items))

    def without_results(self, record: RunRecord, excess_bytes: int, /, *, with_last: bool = False) -> "ShownPart":
        """Return the part without the oldest results that have `excess_bytes`, the last step's only `with_last`.

        One that is no longer than a line stays.
        """
        last = len(record.replies)
        away = set(self.away)
        for result in record.results:
            if excess_bytes <= 0:
                break
            place = (result.step, result.place)
            saved = len(shown(result, record.input.run).text.encode()) - len(_line(result).encode())
            if place not in away and saved > 0 and (with_last or result.step < last):
                away.add(place)
                excess_bytes -= saved
        return self.model_copy(update={"away": frozenset(away)})

    def without_step(self, record: RunRecord, /) -> "ShownPart | None":
        """Return the part without its oldest step; None if only the last one is left."""
        return self.model_copy(update={"first": self.first + 1}) if self.first < len(record.replies) else None

    def _shown(self, result: CallResult, run: str) -> Message:
        whole = shown(result, run)
        is_away = (result.step, result.place) in self.away
        return whole.model_copy(update={"text": _line(result)}) if is_away else whole


class ReadResultArguments(ToolArguments):
    """Arguments of `read_result`."""

    id: Annotated[str, Field(max_length=20, description="Id of the result, such as 3.0.")] = ""
    query: Annotated[str, Field(max_length=400, description="Words to look for.")] = ""
    offset: Annotated[int, Field(ge=0)] = 0


def read_result_tool(record: Callable[[], RunRecord], /) -> Tool:
    """Return the tool that reads the results of a run again."""

    async def read(given: ReadResultArguments, _key: CallKey, /) -> ToolAnswer:
        results = [each for each in record().results if each.tool != READ_RESULT]
        if given.id:
            results = [each for each in results if _id(each) == given.id.strip()]
            if not results:
                return ToolAnswer(text=f"There is no result {given.id!r}.", is_error=True)
        if given.query.strip():
            text = "\n\n".join(_passages(results, given.query)) or "No result has these words."
        elif given.id:
            text = _page(results[0], given.offset)
        else:
            text = "\n".join(_line(each) for each in results[-limits.RESULTS_LISTED :]) or "There are no results yet."
        return ToolAnswer(text=text, is_outside=any(each.is_outside for each in results))

    return typed_tool(READ_RESULT, _ABOUT, ReadResultArguments, read, read_only=True)


def _id(result: CallResult) -> str:
    return f"{result.step}.{result.place}"


def _line(result: CallResult) -> str:
    return f"[`{result.tool}`: {len(result.text):,} characters, put away; `{READ_RESULT}` has them, id {_id(result)}]"


def _page(result: CallResult, offset: int) -> str:
    page = result.text[offset : offset + limits.RESULT_PAGE_CHARS]
    head = f"{_id(result)}, characters {offset:,} to {offset + len(page):,} of {len(result.text):,}:"
    return f"{head}\n{page}"


def _passages(results: list[CallResult], query: str) -> list[str]:
    """Return the passages that have most of the query's words, the latest first of equal ones."""
    wanted = set(_WORD.findall(query.casefold()))
    ranked = sorted(_pieces(results, wanted), key=lambda piece: piece[0], reverse=True)
    return [text for _, text in ranked[: limits.RESULT_PASSAGES]]


def _pieces(results: list[CallResult], wanted: set[str]) -> Iterator[tuple[int, str]]:
    size = limits.RESULT_PASSAGE_CHARS
    for result in reversed(results):
        # Pieces overlap, so that a passage at an edge is whole in one of them.
        for start in range(0, max(len(result.text), 1), size // 2):
            piece = result.text[start : start + size]
            if count := len(wanted & set(_WORD.findall(piece.casefold()))):
                yield count, f"{_id(result)} (`{result.tool}`), from character {start:,}:\n{piece}"
