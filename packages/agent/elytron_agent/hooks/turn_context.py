"""The context of a turn: system items first, then what memory adds, the host's history, and the current input last."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from elytron_agent import limits
from elytron_agent.hooks import items, window
from elytron_agent.hooks.contract import BeforeTurn, BeforeTurnReport, HookSession, HookSettings, HookState
from elytron_agent.hooks.facts import TurnRecollection, recollect_facts
from elytron_agent.hooks.items import HostMessage
from elytron_agent.hooks.reference import POLICY, TurnReference, is_policy, is_reference, reference_items
from elytron_agent.hooks.window import HookWindow, ItemGroup
from elytron_core.policy.admission.own_output import own_words
from elytron_core.text import similarity
from elytron_models import chat_messages
from elytron_models.chat_messages import TurnItem

KEPT_SHARE: Final = 0.5
"""To which share of the limit a compaction brings the context, its summary aside."""
SUMMARY_SHARE: Final = 0.2
"""The share of the limit that a summary may have."""


class ArrangedMessages(NamedTuple):
    """A host's messages by their place in the context."""

    system: tuple[HostMessage, ...]
    history: tuple[HostMessage, ...]
    current: tuple[HostMessage, ...]


def arrange_messages(host: Sequence[HostMessage], latest: int, /) -> ArrangedMessages:
    """Return the messages in their places; what hooks put among them before goes."""
    leading = next((place for place, message in enumerate(host) if message.role not in chat_messages.SYSTEM), len(host))
    system: list[HostMessage] = []
    history: list[HostMessage] = []
    current: list[HostMessage] = []
    for place, message in enumerate(host):
        if _is_ours(message):
            continue
        if message.role == "system" or place < leading:
            system.append(message)
        else:
            (history if place < latest else current).append(message)
    return ArrangedMessages(tuple(system), tuple(history), tuple(current))


class HookContext:
    """Makes the context of one turn."""

    def __init__(self, session: HookSession, /) -> None:
        self._memory, self._scope, self._settings, self._clock = session

    async def applied(self, host: Sequence[HostMessage], request: BeforeTurn, /) -> BeforeTurnReport:
        """Return the context of a turn whose request holds these messages."""
        latest = items.latest_user([*host])
        if latest is None:
            return BeforeTurnReport(state=HookState.EMPTY, messages=[message.raw for message in host])
        placed = arrange_messages(host, latest)
        turns = min(self._settings.recent_items, limits.WINDOW_TURNS)
        known = await window.read_window(self._memory, self._scope, turns=turns)
        sent = frozenset(item.identity for message in host for item in message.items)
        recent = known.recent(sent, limit=self._settings.recent_items)
        recalled = await self._recalled(placed, host[latest], recent)
        made = _MadeContext(
            request, self._settings, placed, recent=recent, recalled=recalled, summary=known.summary_text
        )
        if made.is_too_large:
            made = await self._compacted(made, known)
        return made.report(items.form_of(host))

    async def _recalled(
        self, placed: ArrangedMessages, latest: HostMessage, recent: Sequence[ItemGroup]
    ) -> TurnRecollection:
        """Return what the user's latest message brings to mind that does not stand in the context already."""
        shown = [item for message in (*placed.history, *placed.current) for item in message.items]
        shown += [item for group in recent for item in group.items]
        query = own_words("\n".join(item.words for item in latest.items))
        return await recollect_facts(
            self._memory,
            self._scope,
            query,
            settings=self._settings,
            at=self._clock.now(),
            seen={similarity.plain_text(text) for item in shown for text in (item.words, *item.texts)},
        )

    async def _compacted(self, made: "_MadeContext", known: HookWindow) -> "_MadeContext":
        """Return the context with its oldest groups in the summary."""
        groups = (*made.recent, *window.groups_of(made.placed.history, known.groups))
        cut = window.plan_cut(groups, room_tokens=made.room_tokens)
        if not cut.cut:
            return made
        summary = window.extract_lines(known.summary_text, cut.cut)
        await window.keep_summary(self._memory, self._scope, known.summary, summary, cut.cut)
        return made.after(cut, summary)


class _MadeContext:
    """A context as it is put together."""

    def __init__(
        self,
        request: BeforeTurn,
        settings: HookSettings,
        placed: ArrangedMessages,
        /,
        *,
        recent: Sequence[ItemGroup],
        recalled: TurnRecollection,
        summary: str,
        compacted: int = 0,
    ) -> None:
        self.placed = placed
        self.recent = tuple(recent)
        self._settings = settings
        self._recalled = recalled
        self._request = request
        self._compacted = compacted
        if request.max_input_tokens is not None:
            room = int(request.max_input_tokens * SUMMARY_SHARE) * limits.CHARS_PER_TOKEN
            summary = window.fit_summary(summary, room)
        reference = TurnReference(
            summary=summary, facts=recalled.fact_lines, insights=recalled.insight_lines, chunks=recalled.chunks
        )
        self._reference = reference_items(
            reference, policy_role=settings.policy_role, reference_role=settings.reference_role
        )

    @property
    def tokens(self) -> int:
        """Return about how many tokens the context has."""
        return self._fixed + sum(group.tokens for group in self.recent) + _message_tokens(self.placed.history)

    @property
    def is_too_large(self) -> bool:
        most = self._request.max_input_tokens
        return most is not None and self.tokens >= most * self._settings.compact_threshold

    @property
    def room_tokens(self) -> int:
        """Return what a compaction leaves for recent items and history."""
        assert self._request.max_input_tokens is not None
        policy = 0 if self._reference else len(POLICY) // limits.CHARS_PER_TOKEN
        return int(self._request.max_input_tokens * KEPT_SHARE) - self._fixed - policy

    @property
    def _fixed(self) -> int:
        own = (
            _message_tokens(self.placed.system)
            + _message_tokens(self.placed.current)
            + sum(item.tokens for item in self._reference)
        )
        return own + len(self._request.instructions) // limits.CHARS_PER_TOKEN

    def after(self, cut: window.WindowCut, summary: str, /) -> "_MadeContext":
        """Return the context that a compaction leaves."""
        recent = [group for group in cut.kept if group.first is None]
        first = min((group.first for group in cut.kept if group.first is not None), default=len(self.placed.history))
        count = sum(len(group.items) for group in cut.cut)
        placed = self.placed._replace(history=self.placed.history[first:])
        return _MadeContext(
            self._request,
            self._settings,
            placed,
            recent=recent,
            recalled=self._recalled,
            summary=summary,
            compacted=count,
        )

    def report(self, form: items.MessageForm, /) -> BeforeTurnReport:
        """Return the messages to send."""
        recent: list[TurnItem] = [item for group in self.recent for item in group.items]
        messages = [message.raw for message in self.placed.system]
        messages += items.write_items((*self._reference, *recent), form)
        messages += [message.raw for message in (*self.placed.history, *self.placed.current)]
        return BeforeTurnReport(
            state=HookState.APPLIED if self._reference or recent else HookState.EMPTY,
            messages=messages,
            recalled_fact_ids=tuple(one.entry.id for one in self._recalled.facts),
            recalled_insight_ids=tuple(one.id for one in self._recalled.insights),
            recalled_message_ids=tuple(one.id for one in self._recalled.chunks),
            recent_items=len(recent),
            context_tokens=self.tokens,
            compacted=self._compacted,
        )


def _message_tokens(messages: Sequence[HostMessage]) -> int:
    return sum(message.tokens for message in messages)


def _is_ours(message: HostMessage) -> bool:
    return bool(message.items) and all(is_policy(item) or is_reference(item) for item in message.items)
