"""A host's turn: the context that memory adds before it, and the record stored after it."""

import asyncio
import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, NamedTuple, Self

from elytron_adapter.surface import SurfaceFigure
from elytron_agent import limits
from elytron_agent.hooks import window
from elytron_agent.hooks.contract import AfterTurn, AfterTurnReport, BeforeTurn, BeforeTurnReport, FactSource, HookState
from elytron_agent.hooks.facts import (
    ExtractedFacts,
    TurnFact,
    deletion_of,
    draft_of,
    extraction_request,
    fact_entries,
    marked_facts,
    merge_facts,
    rank_facts,
    recollect_facts,
    told_facts,
)
from elytron_agent.hooks.messages import HostMessage, MessageForm, cut_host_messages, form_of, latest_user, write_items
from elytron_agent.hooks.settings import HookSession, HookSettings
from elytron_agent.hooks.window import (
    HookWindow,
    ItemGroup,
    TurnReference,
    is_policy,
    is_reference,
    reference_items,
)
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.maintenance.maintenance import (
    CommitStatus,
    ExtractionMethod,
    MemoryFinalizeTurnReport,
    MemoryMaintainRequest,
    MemoryMaintenanceReport,
)
from elytron_core.contracts.transcript import CanonicalTurnDelta, LongTermExtraction, MemoryWriteRequest, WriteDecision
from elytron_core.errors import ElytronError, IdempotencyConflict, LimitExceeded, RateLimited, StoreBudgetExceeded
from elytron_core.model import Value
from elytron_core.planes.transcript import sequence_of
from elytron_core.policy.projection.builder import DATA_POLICY
from elytron_core.ports.chat import ChatModel
from elytron_core.text import similarity
from elytron_models import ask_for, chat_messages
from elytron_models.chat_messages import TurnItem
from elytron_turn.assembler import SHARES, PartCut, RequestPart, log_cuts
from elytron_turn.compaction import CompactionPlan, TurnSize, fit_summary, plan_compaction
from elytron_turn.memory import TurnMessages
from elytron_turn.sizes import text_bytes

WINDOW_TURNS: Final = 64
"""Maximum number of earlier turns that are in a context verbatim."""


SUMMARY_SHARE: Final = 0.2
"""Maximum share of the token limit for the summary."""


class ArrangedMessages(NamedTuple):
    """A host's messages by their position in the context."""

    system: tuple[HostMessage, ...]
    history: tuple[HostMessage, ...]
    current: tuple[HostMessage, ...]


def arrange_messages(host: Sequence[HostMessage], latest: int, /) -> ArrangedMessages:
    """Sort the messages by position, and drop those that hooks added earlier."""
    leading_count = next(
        (index for index, message in enumerate(host) if message.role not in chat_messages.SYSTEM), len(host)
    )
    system_messages: list[HostMessage] = []
    history_messages: list[HostMessage] = []
    current_messages: list[HostMessage] = []
    for index, message in enumerate(host):
        if _is_ours(message):
            continue
        if message.role == "system" or index < leading_count:
            system_messages.append(message)
        else:
            (history_messages if index < latest else current_messages).append(message)
    return ArrangedMessages(tuple(system_messages), tuple(history_messages), tuple(current_messages))


class HookContext:
    """Build the context of one turn."""

    def __init__(self, session: HookSession, /) -> None:
        self._session = session
        self._memory, self._scope, self._settings, self._clock = session

    async def applied(self, host: Sequence[HostMessage], request: BeforeTurn, /) -> BeforeTurnReport:
        """Return the context of a turn whose request contains these messages."""
        latest_index = latest_user([*host])
        if latest_index is None:
            return BeforeTurnReport(state=HookState.EMPTY, messages=[message.raw for message in host])
        arranged_messages = arrange_messages(host, latest_index)
        turns = min(self._settings.recent_items, WINDOW_TURNS)
        stored_window = await window.read_window(self._memory, self._scope, turns=turns)
        host_identities = frozenset(item.identity for message in host for item in message.items)
        recent_groups = stored_window.recent(host_identities, limit=self._settings.recent_items)
        recalled = await self._recalled(arranged_messages, host[latest_index], recent_groups)
        context = _ContextDraft(
            request=request,
            settings=self._settings,
            placed=arranged_messages,
            recent=recent_groups,
            recalled=recalled,
            summary=stored_window.summary_text,
        )
        if context.is_too_large:
            context = (await self._compacted(context, stored_window)).fitted()
            log_cuts(context.cuts)
        return context.report(form_of(host))

    async def _recalled(
        self, placed: ArrangedMessages, latest: HostMessage, recent: Sequence[ItemGroup]
    ) -> TurnReference:
        """Return what memory recalls for the user's latest message, without texts that are already in the context."""
        context_items = [item for message in (*placed.history, *placed.current) for item in message.items]
        context_items += [item for group in recent for item in group.items]
        texts = frozenset(similarity.plain_text(text) for item in context_items for text in (item.words, *item.texts))
        messages = TurnMessages(current="\n".join(item.words for item in latest.items), texts=texts)
        return await recollect_facts(self._session, messages)

    async def _compacted(self, context: "_ContextDraft", stored_window: HookWindow) -> "_ContextDraft":
        """Return the context with its oldest groups moved into the summary."""
        groups = (*context.recent, *window.groups_of(context.placed.history, stored_window.groups))
        plan = context.plan(groups)
        if plan is None:
            return context
        old_groups, latest_groups = groups[: len(plan.evicted)], groups[len(plan.evicted) :]
        summary = window.extend_lines(stored_window.summary_text, old_groups)
        await window.keep_summary(self._memory, self._scope, stored_window.summary, summary, old_groups)
        return context.after(old_groups, latest_groups, summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ContextDraft:
    """A context under construction."""

    request: BeforeTurn
    settings: HookSettings
    placed: ArrangedMessages
    recent: tuple[ItemGroup, ...]
    recalled: TurnReference
    summary: str
    compacted: int = 0
    cuts: tuple[PartCut, ...] = ()
    reference: tuple[TurnItem, ...] = field(init=False)

    def __post_init__(self) -> None:
        summary, max_tokens, recalled = self.summary, self.request.max_input_tokens, self.recalled
        if max_tokens is not None:
            summary = fit_summary(summary, int(max_tokens * SUMMARY_SHARE) * limits.CHARS_PER_TOKEN)
        reference = recalled.model_copy(update={"summary": summary})
        roles = {"policy_role": self.settings.policy_role, "reference_role": self.settings.reference_role}
        object.__setattr__(self, "reference", reference_items(reference, **roles))

    @property
    def tokens(self) -> int:
        """Return the approximate number of tokens in the context."""
        return self._fixed + sum(group.tokens for group in self.recent) + _message_tokens(self.placed.history)

    @property
    def is_too_large(self) -> bool:
        max_tokens = self.request.max_input_tokens
        return max_tokens is not None and self.tokens >= max_tokens * self.settings.compact_threshold

    def plan(self, groups: Sequence[ItemGroup], /) -> CompactionPlan | None:
        """Return which groups leave a context that is too large, or None if none can."""
        assert self.request.max_input_tokens is not None
        # If there is no reference yet, a compaction creates one, and the policy comes with it.
        policy_tokens = 0 if self.reference else len(DATA_POLICY) // limits.CHARS_PER_TOKEN
        return plan_compaction(
            [TurnSize(run=str(index), tokens=group.tokens) for index, group in enumerate(groups)],
            fixed_tokens=self._fixed + policy_tokens,
            max_tokens=self.request.max_input_tokens,
            threshold=self.settings.compact_threshold,
            # The summary is part of the reference.
            summary_tokens=0,
            is_forced=True,
        )

    @property
    def _fixed(self) -> int:
        message_tokens = (
            _message_tokens(self.placed.system)
            + _message_tokens(self.placed.current)
            + sum(item.tokens for item in self.reference)
        )
        return message_tokens + len(self.request.instructions) // limits.CHARS_PER_TOKEN

    def after(self, old: Sequence[ItemGroup], latest: Sequence[ItemGroup], summary: str, /) -> Self:
        """Return the context after a compaction: the latest groups, with the older ones in the summary."""
        history = self.placed.history
        first_index = min((group.first for group in latest if group.first is not None), default=len(history))
        return replace(
            self,
            placed=self.placed._replace(history=history[first_index:]),
            recent=tuple(group for group in latest if group.first is None),
            summary=summary,
            compacted=sum(len(group.items) for group in old),
        )

    def fitted(self) -> Self:
        """Return the context cut to the limit: recalled memory first, then the host's own texts."""
        fitted_context = self
        for part in (RequestPart.REFERENCE, RequestPart.SYSTEM, RequestPart.CURRENT):
            if fitted_context.is_too_large:
                fitted_context = fitted_context.without_excess(part)
        return fitted_context

    def without_excess(self, part: RequestPart, /) -> Self:
        """Return the context with a part cut by the excess, but never below the part's minimum share."""
        assert self.request.max_input_tokens is not None
        token_limit = int(self.request.max_input_tokens * self.settings.compact_threshold)
        tokens_before = self.part_tokens(part)
        token_room = max(tokens_before - (self.tokens - token_limit) - 1, int(token_limit * SHARES[part]))
        shorter_context = self
        match part:
            case RequestPart.SYSTEM:
                shorter_context = replace(
                    self, placed=self.placed._replace(system=_cut_tokens(self.placed.system, token_room))
                )
            case RequestPart.CURRENT:
                shorter_context = replace(
                    self, placed=self.placed._replace(current=_cut_tokens(self.placed.current, token_room))
                )
            case _:
                while shorter_context.part_tokens(part) > token_room:
                    recalled = shorter_context.recalled.shorter()
                    if recalled is shorter_context.recalled:
                        break
                    shorter_context = replace(shorter_context, recalled=recalled)
        tokens_after = shorter_context.part_tokens(part)
        if tokens_after == tokens_before:
            return shorter_context
        chars_per_token = limits.CHARS_PER_TOKEN
        return replace(
            shorter_context,
            cuts=(
                *self.cuts,
                PartCut(
                    part=part, bytes_before=tokens_before * chars_per_token, bytes_after=tokens_after * chars_per_token
                ),
            ),
        )

    def part_tokens(self, part: RequestPart, /) -> int:
        """Return the number of tokens of the system messages, the current messages or the reference."""
        match part:
            case RequestPart.SYSTEM:
                return _message_tokens(self.placed.system)
            case RequestPart.CURRENT:
                return _message_tokens(self.placed.current)
            case _:
                return sum(item.tokens for item in self.reference)

    def report(self, form: MessageForm, /) -> BeforeTurnReport:
        """Return the messages to send."""
        recent_items: list[TurnItem] = [item for group in self.recent for item in group.items]
        messages = [message.raw for message in self.placed.system]
        messages += write_items((*self.reference, *recent_items), form)
        messages += [message.raw for message in (*self.placed.history, *self.placed.current)]
        return BeforeTurnReport(
            state=HookState.APPLIED if self.reference or recent_items else HookState.EMPTY,
            messages=messages,
            recalled_fact_ids=tuple(fact.id for fact in self.recalled.facts),
            recalled_insight_ids=tuple(insight.id for insight in self.recalled.insights),
            recalled_message_ids=tuple(chunk.id for chunk in self.recalled.chunks),
            recent_items=len(recent_items),
            context_tokens=self.tokens,
            compacted=self.compacted,
            cuts=self.cuts,
        )


def _message_tokens(messages: Sequence[HostMessage]) -> int:
    return sum(message.tokens for message in messages)


def _cut_tokens(messages: Sequence[HostMessage], room: int) -> tuple[HostMessage, ...]:
    """Return the messages with their texts cut, so that together with everything else they take about `room` tokens."""
    text_size = sum(text_bytes(text) for message in messages for item in message.items for text in item.texts)
    fixed_size = _message_tokens(messages) * limits.CHARS_PER_TOKEN - text_size
    return cut_host_messages(messages, room * limits.CHARS_PER_TOKEN - fixed_size)


def _is_ours(message: HostMessage) -> bool:
    return bool(message.items) and all(is_policy(item) or is_reference(item) for item in message.items)


BUCKETS: Final = (("0-9", 10), ("10-49", 50), ("50-99", 100), ("100-299", 300), ("300-999", 1000), ("1000+", None))
"""Name of each bucket, with its exclusive upper bound in milliseconds."""


class HookLatency(Value):
    """Duration of a hook in milliseconds."""

    buckets: dict[str, int] = {name: 0 for name, _ in BUCKETS}
    sum_ms: int = 0
    last_ms: int = 0
    count: int = 0

    def observed(self, ms: int, /) -> "HookLatency":
        """Return the latency with one more call."""
        bucket_name = next(bucket_name for bucket_name, bucket_end in BUCKETS if bucket_end is None or ms < bucket_end)
        buckets = self.buckets | {bucket_name: self.buckets[bucket_name] + 1}
        return HookLatency(buckets=buckets, sum_ms=self.sum_ms + ms, last_ms=ms, count=self.count + 1)


class HookMetrics(Value):
    """Counts of hook calls since the hooks were created."""

    memory_before_turn_total: int = 0
    memory_before_turn_fail_total: int = 0
    memory_after_turn_total: int = 0
    memory_after_turn_fail_total: int = 0
    memory_recall_fact_count: int = 0
    memory_before_latency_ms: HookLatency = HookLatency()
    memory_after_latency_ms: HookLatency = HookLatency()
    memory_maintenance_recovery_total: int = 0
    """Turns that exceeded a limit and were stored on a second attempt after maintenance."""
    memory_maintenance_recovery_fail_total: int = 0
    """Turns that exceeded a limit even after maintenance."""


class HookCounts:
    """The growing counts of one set of hooks."""

    def __init__(self) -> None:
        self._metrics = HookMetrics()

    @property
    def metrics(self) -> HookMetrics:
        return self._metrics

    def add(self, name: str, count: int = 1, /) -> None:
        """Add to one of the counters."""
        self._metrics = self._metrics.model_copy(update={name: getattr(self._metrics, name) + count})

    def took(self, name: str, ms: int, /) -> None:
        """Record how long a hook took."""
        latency: HookLatency = getattr(self._metrics, name)
        self._metrics = self._metrics.model_copy(update={name: latency.observed(max(ms, 0))})


TEXTS: Final = {
    "memory_before_turn_total": "Turns for which memory was requested.",
    "memory_before_turn_fail_total": "Turns that continued without memory because it failed.",
    "memory_after_turn_total": "Turns sent to memory.",
    "memory_after_turn_fail_total": "Turns that were not stored because memory failed.",
    "memory_recall_fact_count": "Facts supplied to turns.",
    "memory_before_latency_ms": "Milliseconds before a turn.",
    "memory_after_latency_ms": "Milliseconds after a turn.",
    "memory_maintenance_recovery_total": "Oversized turns that were stored after maintenance.",
    "memory_maintenance_recovery_fail_total": "Turns that were still too large after maintenance.",
}


def figures_of(metrics: HookMetrics, /) -> Iterator[SurfaceFigure]:
    """Yield each figure separately. Buckets are cumulative, as Prometheus expects."""
    for name, value in metrics:
        if not isinstance(value, HookLatency):
            yield SurfaceFigure(name, TEXTS[name], value)
            continue
        # A Prometheus bucket includes its upper bound, and these are whole milliseconds.
        bounds = (f"{bucket_end - 1}" if bucket_end is not None else "+Inf" for _, bucket_end in BUCKETS)
        counts = accumulate(value.buckets[bucket] for bucket, _ in BUCKETS)
        yield SurfaceFigure(name, TEXTS[name], value.sum_ms, tuple(zip(bounds, counts, strict=True)))


logger = logging.getLogger("elytron.hooks")


class TurnRecord:
    """Store the turns of one session."""

    def __init__(self, session: HookSession, model: ChatModel | None, counting: HookCounts, /) -> None:
        self._session = session
        self._memory, self._scope, self._settings, self._clock = session
        self._model = model
        self._counting = counting

    async def store_turn(
        self, messages: Sequence[HostMessage], reply: Sequence[TurnItem], request: AfterTurn, /
    ) -> AfterTurnReport:
        """Store the items from the user's latest message on, and the answer. Earlier items are already known."""
        items = turn_items(messages, reply)
        turn_delta = window.delta_of(items, turn_id=request.turn_id, speaker=request.user_id)
        if turn_delta is None:
            return AfterTurnReport(state=HookState.EMPTY)
        commit_report, is_recovered = await self._committed(turn_delta)
        is_known = commit_report.session_commit is CommitStatus.DUPLICATE
        fact_source, decisions = await self._learned(items, commit_report, is_known=is_known)
        await self._settled(commit_report)
        return AfterTurnReport(
            state=HookState.DUPLICATE if is_known else HookState.APPLIED,
            turn=commit_report.turn_id,
            messages=len(commit_report.message_ids),
            source=fact_source,
            facts=decisions,
            recovered=is_recovered,
        )

    async def maintained(self) -> MemoryMaintenanceReport:
        """Summarise old turns, and run the parts of maintenance that need no model."""
        await self._summed_up()
        return await self._memory.maintain(MemoryMaintainRequest(scope=self._scope, extraction=ExtractionMethod.OFF))

    async def deleted(self, fact_id: str, /) -> int:
        """Delete the current facts with an id and return their number."""
        drafts = [deletion_of(fact, at=self._clock.now()) for fact in await self._standing(fact_id)]
        if drafts:
            await self._memory.write(
                MemoryWriteRequest(scope=self._scope, write=LongTermExtraction(facts=tuple(drafts)))
            )
        return len(drafts)

    async def _committed(self, delta: CanonicalTurnDelta) -> tuple[MemoryFinalizeTurnReport, bool]:
        """Store the evidence. Return its receipt, and whether that needed maintenance."""
        memory = self._session.turn_memory
        try:
            return await memory.after(delta), False
        except RateLimited:
            # Waiting helps against a rate limit; maintenance does not.
            raise
        except (LimitExceeded, StoreBudgetExceeded):
            await self.maintained()
        try:
            commit_report = await memory.after(delta)
        except (LimitExceeded, StoreBudgetExceeded):
            self._counting.add("memory_maintenance_recovery_fail_total")
            raise
        self._counting.add("memory_maintenance_recovery_total")
        return commit_report, True

    async def _learned(
        self, items: Sequence[TurnItem], committed: MemoryFinalizeTurnReport, *, is_known: bool
    ) -> tuple[FactSource, tuple[WriteDecision, ...]]:
        """Propose the facts of the turn once; a repeated turn does not call the model again."""
        fact_source, learned_facts, deleted_facts = FactSource.RULES, marked_facts(items), tuple[TurnFact, ...]()
        if self._model is not None and not is_known:
            standing_facts = await self._standing()
            try:
                answer = await self._extract_facts(self._model, items, standing_facts)
            except (ElytronError, TimeoutError) as error:
                key = error.key if isinstance(error, ElytronError) else "timeout"
                logger.warning("the model extracted no facts; rules were used instead", extra={"error_key": key})
            else:
                deleted_ids = {fact_id.strip().casefold() for fact_id in answer.deleted_fact_ids}
                fact_source, learned_facts = FactSource.MODEL, merge_facts(learned_facts, told_facts(answer))
                deleted_facts = tuple(fact for fact in standing_facts if fact.fact_id.casefold() in deleted_ids)
        return fact_source, await self._proposed(learned_facts, deleted_facts, committed)

    async def _extract_facts(
        self, model: ChatModel, items: Sequence[TurnItem], facts: Sequence[TurnFact]
    ) -> ExtractedFacts:
        settings = self._settings
        request = extraction_request(
            items, facts, max_tokens=settings.memory_llm_max_output_tokens, context_tokens=model.info.context_tokens
        )
        async with asyncio.timeout(settings.memory_llm_timeout_seconds):
            return (await ask_for(model, request, ExtractedFacts)).value

    async def _proposed(
        self, facts: Sequence[TurnFact], deleted: Sequence[TurnFact], committed: MemoryFinalizeTurnReport
    ) -> tuple[WriteDecision, ...]:
        at, cited_ids = self._clock.now(), committed.message_ids[:1]
        drafts: list[FactDraft] = [deletion_of(fact, at=at, citations=cited_ids) for fact in deleted]
        drafts += [
            draft_of(fact, at=at, citations=cited_ids, l1_days=self._settings.l1_days, l2_days=self._settings.l2_days)
            for fact in facts
        ]
        if not drafts:
            return ()
        turn_name = f"{committed.conversation}\n{committed.host_turn_id}"
        write_request = MemoryWriteRequest(
            scope=self._scope,
            write=LongTermExtraction(facts=tuple(drafts)),
            idempotency_key=f"hooks.{hashlib.sha256(turn_name.encode()).hexdigest()}",
        )
        try:
            report = await self._memory.write(write_request)
        except IdempotencyConflict:  # the facts of this turn are stored as they were extracted then
            return ()
        return () if report.duplicated else report.decisions

    async def _standing(self, fact_id: str | None = None) -> tuple[TurnFact, ...]:
        """Return the current facts, optionally only those with an id."""
        entries = await fact_entries(self._memory, self._scope)
        standing_facts = [ranked_fact.fact for ranked_fact in rank_facts(entries, "", at=self._clock.now())]
        return tuple(
            fact for fact in standing_facts if fact_id is None or fact.fact_id.casefold() == fact_id.casefold()
        )

    async def _settled(self, committed: MemoryFinalizeTurnReport) -> None:
        """Summarise old turns each time as many turns were stored as a context holds."""
        summary_interval = self._settings.recent_items
        if (
            committed.changed
            and committed.turn_id is not None
            and summary_interval
            and not sequence_of(committed.turn_id) % summary_interval
        ):
            await self._summed_up()

    async def _summed_up(self) -> None:
        """Move items beyond twice the number of recent ones into the summary, and leave the recent ones."""
        stored_window = await window.read_window(self._memory, self._scope, turns=WINDOW_TURNS)
        if sum(len(group.items) for group in stored_window.groups) <= 2 * self._settings.recent_items:
            return
        recent_count = len(stored_window.recent(frozenset(), limit=self._settings.recent_items))
        old_groups = stored_window.groups[: len(stored_window.groups) - recent_count]
        text = window.extend_lines(stored_window.summary_text, old_groups)
        await window.keep_summary(self._memory, self._scope, stored_window.summary, text, old_groups)


def turn_items(messages: Sequence[HostMessage], reply: Sequence[TurnItem], /) -> tuple[TurnItem, ...]:
    """Return the items of the turn itself: from the user's latest message on, then those the answer adds."""
    latest_index = latest_user(messages)
    if latest_index is None:
        return ()
    own_items = [item for message in messages[latest_index:] for item in message.items]
    later_identities = {item.identity for item in own_items[1:]}
    return (*own_items, *(item for item in reply if item.identity not in later_identities))
