"""Evaluate turn hooks by ten rates, each with a threshold, on bundled turns or on those of a file.

A `turn` line holds a user's message and the answer to it. A `question` line is not stored; it lists texts that the
recalled facts must contain (`expects`) or must not contain (`excludes`). A `wait` line advances the clock by days. A
`setup` line, allowed only as the first line, sets hook options and replaces thresholds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

import elytron
from elytron_agent.hooks.messages import items_of
from elytron_agent.hooks.session import checked_session, space_of
from elytron_agent.hooks.settings import HookSettings, StorageKind
from elytron_agent.hooks.turn_hooks import TurnHooks
from elytron_agent.hooks.window import is_reference
from elytron_core import limits
from elytron_core.clock import DAY_MS, FrozenClock
from elytron_core.contracts.facts import FactListRequest
from elytron_core.errors import InvalidInput, InvalidJson, UnreadableFile
from elytron_core.ids import SeededIds
from elytron_core.limits import PAGE_MAX
from elytron_core.model import Value, invalid_input
from elytron_core.planes.facts import FactState
from elytron_core.strict_json import parse_json
from elytron_core.text.similarity import is_blank, normalise_text
from elytron_models.chat_messages import Json

MAX_SCRIPT_BYTES: Final = 4 * 1024 * 1024
MAX_SCRIPT_LINES: Final = 1_000
"""Size limits of a turn file."""
MAX_SCRIPT_TEXTS: Final = 64
"""Maximum number of texts in a question's `expects`, and in its `excludes`."""
MAX_SCRIPT_DAYS: Final = 3_650
CEILINGS: Final[Mapping[str, float]] = {
    "prompt_duplicate_rate": 0.0,
    "persisted_history_echo_rate": 0.0,
    "duplicate_growth": 1.05,
    "session_isolation_leak": 0.0,
}
"""Rates with an upper threshold."""
FLOORS: Final[Mapping[str, float]] = {
    "history_equivalence": 1.0,
    "fact_recall_precision": 1.0,
    "fact_recall_recall": 1.0,
    "durable_fact_survival": 1.0,
    "expired_fact_suppression": 1.0,
    "idempotency": 1.0,
    "compaction_triggers": 1.0,
}
"""Rates with a lower threshold."""


class HookRate(Value):
    """A rate and its threshold `bar`: an upper one if `is_ceiling`, otherwise a lower one."""

    name: str
    value: float
    bar: float
    is_ceiling: bool = False

    @property
    def holds(self) -> bool:
        return self.value <= self.bar if self.is_ceiling else self.value >= self.bar


class HookRates(Value):
    """The rates of one run. Fact precision and fact recall are two of the ten rates."""

    rates: tuple[HookRate, ...]
    unmeasured: tuple[str, ...] = ()
    """Names of the rates for which the turns contained nothing to measure."""

    @property
    def hold(self) -> bool:
        return all(rate.holds for rate in self.rates)

    def of(self, name: str, /) -> float:
        """Return the rate with that name."""
        return next(rate.value for rate in self.rates if rate.name == name)


def rate_of(name: str, part: float, whole: float, /, *, bar: float | None = None) -> HookRate:
    """Return the rate `part / whole` with the threshold `bar`, or with the rate's default threshold."""
    default_bar = CEILINGS[name] if name in CEILINGS else FLOORS[name]
    value = part / whole if whole else 0.0
    return HookRate(name=name, value=value, bar=default_bar if bar is None else bar, is_ceiling=name in CEILINGS)


SHARES: Final = (0.5, 0.7, 0.79, 0.81, 0.9, 1.2)
"""Fill levels of the context window, as shares of its limit, at which compaction is checked."""
ASKING: Final = "asking"
"""Name of a separate conversation for questions, so that recent turns cannot answer them."""


class HookStage:
    """Send turns to the hooks of one memory and read back what was stored."""

    def __init__(
        self, memory: elytron.MemoryRuntime, clock: FrozenClock, /, *, settings: HookSettings | None = None
    ) -> None:
        self.clock = clock
        self._memory = memory
        self._settings = settings or HookSettings()

    def hooks(self) -> TurnHooks:
        """Return hooks for this memory. The caller closes them if their settings name a model."""
        secret = b"of this evaluation"
        return TurnHooks(self._memory, settings=self._settings, clock=self.clock, session_secret=secret)

    async def tell(self, hooks: TurnHooks, turns: Sequence[str], /, *, session: str, ids: str = "t") -> None:
        """Send the turns with the same answer to each, under ids derived from their positions."""
        await self.tell_pairs(hooks, [(text, "I see.") for text in turns], session=session, ids=ids)

    async def tell_pairs(
        self, hooks: TurnHooks, turns: Sequence[tuple[str, str]], /, *, session: str, ids: str = "t"
    ) -> None:
        """Send turns with their answers, under ids derived from their positions."""
        for number, (text, reply) in enumerate(turns):
            async with hooks.turn(text, session_id=session, turn_id=f"{ids}{number}") as turn:
                turn.answered(reply)

    async def recalled_facts(self, hooks: TurnHooks, question: str, /, *, session: str) -> list[str]:
        """Return the contents of the facts that are recalled for a question."""
        async with hooks.turn(question, session_id=session, conversation=ASKING) as turn:
            ids = turn.before.recalled_fact_ids
        contents = {fact.id: fact.content for fact in await self._entries(session)}
        return [contents[name] for name in ids]

    async def stored_texts(self, session: str, /) -> list[str]:
        """Return the stored messages of a session in order."""
        report = await self._memory.replay(elytron.MemoryReplayRequest(scope=self._scope(session), limit=PAGE_MAX))
        return [message.text for turn in report.turns for message in turn.messages]

    async def facts_of(self, session: str, /) -> list[str]:
        """Return the contents of a session's facts in every state."""
        return [fact.content for fact in await self._entries(session)]

    async def compacted_rightly(
        self, hooks: TurnHooks, turns: Sequence[tuple[str, str]], /, *, session: str, question: str
    ) -> int:
        """Return for how many of `SHARES` compaction happens exactly when the settings require it."""
        right_count = 0
        for number, share in enumerate(SHARES):
            name = f"{session}-{number}"
            await self.tell_pairs(hooks, turns, session=name)
            async with hooks.turn(question, session_id=name) as turn:
                tokens = turn.before.context_tokens
            async with hooks.turn(question, session_id=name, max_input_tokens=round(tokens / share)) as turn:
                right_count += (turn.before.compacted > 0) == (share >= self._settings.compact_threshold)
        return right_count

    async def _entries(self, session: str) -> Sequence[elytron.FactEntry]:
        request = FactListRequest(scope=self._scope(session), states=tuple(FactState), limit=PAGE_MAX)
        return (await self._memory.list_facts(request)).items

    def _scope(self, session: str) -> elytron.Scope:
        return elytron.Scope(space=space_of(self._settings.memory_project, session))


FACT_TEXTS: Final = (
    "My name is Ada Byron.",
    "I prefer short answers.",
    "I like oat milk in coffee.",
    "Today I need to buy bread.",
    "This week I need a haircut.",
)
LASTING: Final = {"Ada Byron", "short answers"}
OF_THE_WEEK: Final = {"oat milk in coffee", "a haircut"}
OF_THE_DAY: Final = {"to buy bread"}
QUESTIONS: Final = ("Who am I?", "How do I like my coffee?", "What do I need today?", "Tell me a joke.")
SMALL_TALK: Final = (
    ("The tide table hangs in the kitchen.", "Good to know."),
    ("Our dinghy is called Petrel.", "A fine name."),
    ("The boat house was painted blue.", "It must look well."),
    ("Ok", "Ok"),
    ("The harbour closes at nine.", "Then we must be early."),
    ("Ok", "Ok"),
)


async def evaluate_hooks(store: str = "memory:", /) -> HookRates:
    """Measure the rates on a store, where each scenario uses its own sessions."""
    clock = FrozenClock(step_ms=1)
    async with elytron.open(store, space=None, clock=clock, ids=SeededIds()) as memory:
        scenarios = _HookScenarios(memory, clock)
        rates = [
            *await scenarios.history(),
            *await scenarios.facts(),
            *await scenarios.repeats(),
            *await scenarios.walls(),
        ]
        return HookRates(rates=(*rates, *await scenarios.compaction()))


class _HookScenarios(HookStage):
    """Send bundled turns to hooks and count the outcomes."""

    async def history(self) -> tuple[HookRate, ...]:
        """Play a conversation whose host resends its whole history and whose model echoes the reference it is shown."""
        hooks, history = self.hooks(), list[Json]()
        item_count = duplicate_count = 0
        for prompt, reply in SMALL_TALK:
            history.append({"role": "user", "content": prompt})
            async with hooks.turn(history, session_id="history") as turn:
                context_items = Counter(item.identity for item in items_of(turn.messages))
                host_items = Counter(item.identity for item in items_of(history))
                item_count += context_items.total()
                # Messages that the host itself repeats are not duplicates, nor is the first occurrence of each.
                duplicate_count += (context_items - host_items - Counter(set(context_items))).total()
                references = [str(item.words) for item in items_of(turn.messages) if is_reference(item)]
                turn.answered("\n".join([reply, *references]))
            history.append({"role": "assistant", "content": reply})
        stored_texts = await self.stored_texts("history")
        expected_texts = [text for pair in SMALL_TALK for text in pair]
        echo_count = (Counter(stored_texts) - Counter(expected_texts)).total()
        same_count = sum(
            stored_text == expected_text
            for stored_text, expected_text in zip(stored_texts, expected_texts, strict=False)
        )
        return (
            rate_of("prompt_duplicate_rate", duplicate_count, item_count),
            rate_of("persisted_history_echo_rate", echo_count, len(stored_texts)),
            rate_of("history_equivalence", same_count, max(len(stored_texts), len(expected_texts))),
        )

    async def facts(self) -> tuple[HookRate, ...]:
        """State facts of all retention tiers, then ask on the same day, the next day, a week later and a year later."""
        hooks = self.hooks()
        await self.tell(hooks, FACT_TEXTS, session="facts")
        expected_facts = LASTING | OF_THE_WEEK | OF_THE_DAY
        right_count = value_count = expected_count = 0
        for question in QUESTIONS:
            values = await self._values(hooks, question)
            right_count, value_count, expected_count = (
                right_count + len(values & expected_facts),
                value_count + len(values),
                expected_count + len(expected_facts),
            )
        suppressed_count, past_count, lasting_count = 0, 0, 0
        for days, past_facts in ((1, OF_THE_DAY), (7, OF_THE_DAY | OF_THE_WEEK), (365, OF_THE_DAY | OF_THE_WEEK)):
            self.clock.advance(days * DAY_MS)
            values = await self._values(hooks, QUESTIONS[0])
            suppressed_count, past_count, lasting_count = (
                suppressed_count + len(past_facts - values),
                past_count + len(past_facts),
                lasting_count + len(values & LASTING),
            )
        return (
            rate_of("fact_recall_precision", right_count, value_count),
            rate_of("fact_recall_recall", right_count, expected_count),
            rate_of("durable_fact_survival", lasting_count, 3 * len(LASTING)),
            rate_of("expired_fact_suppression", suppressed_count, past_count),
        )

    async def _values(self, hooks: TurnHooks, question: str) -> set[str]:
        facts = await self.recalled_facts(hooks, question, session="facts")
        return {fact.partition(": ")[2] for fact in facts}

    async def repeats(self) -> tuple[HookRate, ...]:
        """Send each turn three times under the same id, then the same texts under new ids."""
        hooks = self.hooks()
        await self.tell(hooks, FACT_TEXTS, session="repeats")
        texts, facts = await self.stored_texts("repeats"), await self.facts_of("repeats")
        unchanged_count = 0
        for _ in range(2):
            await self.tell(hooks, FACT_TEXTS, session="repeats")
            unchanged_count += (texts, facts) == (await self.stored_texts("repeats"), await self.facts_of("repeats"))
        await self.tell(hooks, FACT_TEXTS, session="repeats", ids="again")
        return (
            rate_of("idempotency", unchanged_count, 2),
            rate_of("duplicate_growth", len(await self.facts_of("repeats")), len(facts)),
        )

    async def walls(self) -> tuple[HookRate, ...]:
        """Give each of several sessions a secret, then ask every session for the secrets of the others."""
        hooks = self.hooks()
        people = {f"key-{number}": f"Name{number}" for number in range(4)}
        for key, name in people.items():
            await self.tell(hooks, (f"My name is {name}.",), session=hooks.session_of(key))
        leak_count = question_count = 0
        for key, own_name in people.items():
            for name in people.values():
                async with hooks.turn(f"Is there a {name}? Who am I?", credential=key) as turn:
                    context = "\n".join(str(message["content"]) for message in turn.messages[:-1])
                question_count += 1
                leak_count += any(other_name in context for other_name in people.values() if other_name != own_name)
        return (rate_of("session_isolation_leak", leak_count, question_count),)

    async def compaction(self) -> tuple[HookRate, ...]:
        """Request contexts under several limits; compaction must begin exactly at four fifths of the limit."""
        pairs = [(f"{prompt} {prompt}", "I see.") for prompt, _ in SMALL_TALK]
        right_count = await self.compacted_rightly(self.hooks(), pairs, session="compaction", question="And now?")
        return (rate_of("compaction_triggers", right_count, len(SHARES)),)


_Words = Annotated[str, Field(min_length=1, max_length=limits.CONDITION_CHARS)]
_MessageText = Annotated[str, Field(min_length=1, max_length=limits.MESSAGE_CHARS)]
_Texts = Annotated[tuple[_Words, ...], Field(max_length=MAX_SCRIPT_TEXTS)]


class TurnLine(Value):
    """A turn of a session, which memory stores."""

    kind: Literal["turn"]
    user: _MessageText
    assistant: _MessageText
    session: str = "default"


class QuestionLine(Value):
    """A question to a session at this point in the turns."""

    kind: Literal["question"]
    user: _MessageText
    expects: _Texts = ()
    excludes: _Texts = ()
    session: str = "default"


class WaitLine(Value):
    """Days that pass before the next line."""

    kind: Literal["wait"]
    days: Annotated[int, Field(ge=1, le=MAX_SCRIPT_DAYS)]


class SetupLine(Value):
    """Hook settings, and thresholds that replace the defaults."""

    kind: Literal["setup"]
    settings: dict[str, JsonValue] = {}
    bars: dict[str, Annotated[float, Field(ge=0)]] = {}


class TurnScript(Value):
    """The content of a turn file."""

    lines: tuple[TurnLine | QuestionLine | WaitLine, ...]
    settings: HookSettings = HookSettings()
    bars: dict[str, float] = {}

    @property
    def turns(self) -> dict[str, list[TurnLine]]:
        """Return the turns of each session in order."""
        turns_by_session: dict[str, list[TurnLine]] = {}
        for line in self.lines:
            if isinstance(line, TurnLine):
                turns_by_session.setdefault(line.session, []).append(line)
        return turns_by_session


_Line = TurnLine | QuestionLine | WaitLine | SetupLine
_LINES: Final = TypeAdapter[_Line](Annotated[_Line, Field(discriminator="kind")])


def read_script(path: Path, /) -> TurnScript:
    """Read a turn file. Raises UnreadableFile, which names the line but quotes nothing from it."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name, error) from None
    if len(data) > MAX_SCRIPT_BYTES:
        raise UnreadableFile(name=path.name, problem=f"has more than {MAX_SCRIPT_BYTES:,} bytes")
    lines: list[TurnLine | QuestionLine | WaitLine] = []
    setup: SetupLine | None = None
    settings = HookSettings()
    for number, text in enumerate(data.split(b"\n"), 1):
        if not text.strip():
            continue
        try:
            line = _parse_line(text)
            if not isinstance(line, SetupLine):
                lines.append(line)
                continue
            settings, setup = _line_settings(line, is_first=setup is None and not lines), line
        except InvalidInput as error:
            problem = f"{error.field} {error.problem}"
            raise UnreadableFile(name=path.name, line=number, problem=problem) from None
    if len(lines) > MAX_SCRIPT_LINES:
        raise UnreadableFile(name=path.name, problem=f"has more than {MAX_SCRIPT_LINES:,} lines")
    if not any(isinstance(line, TurnLine) for line in lines):
        raise UnreadableFile(name=path.name, problem='has no turns: add lines with "kind": "turn"')
    return TurnScript(lines=tuple(lines), settings=settings, bars=setup.bars if setup is not None else {})


def _parse_line(text: bytes) -> _Line:
    """Parse one line. Raises InvalidInput."""
    try:
        line = _LINES.validate_python(parse_json(text, limit=MAX_SCRIPT_BYTES))
    except InvalidJson as error:
        raise InvalidInput(field="JSON", problem=error.problem) from None
    except ValidationError as error:
        raise invalid_input(error) from None
    match line:
        case SetupLine(bars=bars):
            if bars.keys() - CEILINGS.keys() - FLOORS.keys():
                problem = f"names an unknown rate: use {', '.join([*CEILINGS, *FLOORS])}"
                raise InvalidInput(field="bars", problem=problem)
        case TurnLine() | QuestionLine():
            checked_session(line.session)
            if is_blank(line.user):
                raise InvalidInput(field="user", problem="has no visible character")
        case WaitLine():
            pass
    return line


def _line_settings(line: SetupLine, *, is_first: bool) -> HookSettings:
    if not is_first:
        raise InvalidInput(field="setup", problem="belongs on the first line")
    settings = HookSettings.read(line.settings)
    if settings.memory_storage is not StorageKind.ELYTRON or not settings.enable_memory:
        problem = "would move or disable the evaluation's memory: leave out memory_storage and enable_memory"
        raise InvalidInput(field="settings", problem=problem)
    return settings


_COMPACTED_FROM: Final = 4
"""Minimum number of turns in a session for compaction to be measured."""


async def evaluate_turns(script: TurnScript, /) -> HookRates:
    """Measure the rates for the turns of `script` in a store created for this run."""
    clock = FrozenClock(step_ms=1)
    async with elytron.open("memory:", space=None, clock=clock, ids=SeededIds()) as memory:
        evaluation = _ScriptTelling(memory, clock, script)
        async with evaluation.hooks() as hooks:
            await evaluation.all_lines(hooks)
            await evaluation.other_sessions(hooks)
            await evaluation.repeats(hooks)
            await evaluation.compaction(hooks)
        return evaluation.rates()


class _ScriptTelling(HookStage):
    """Send the lines of a script to hooks and count the numerator and denominator of each rate."""

    def __init__(self, memory: elytron.MemoryRuntime, clock: FrozenClock, script: TurnScript, /) -> None:
        super().__init__(memory, clock, settings=script.settings)
        self._script = script
        self._parts: Counter[str] = Counter()
        self._wholes: Counter[str] = Counter()
        self._histories: dict[str, list[Json]] = {}

    def rates(self) -> HookRates:
        """Return the rates that could be measured, in report order."""
        bars, names = self._script.bars, [*CEILINGS, *FLOORS]
        measured_names = [name for name in names if self._wholes[name]]
        return HookRates(
            rates=tuple(
                rate_of(name, self._parts[name], self._wholes[name], bar=bars.get(name)) for name in measured_names
            ),
            unmeasured=tuple(name for name in names if name not in measured_names),
        )

    async def all_lines(self, hooks: TurnHooks) -> None:
        """Send the lines in order, each turn with the whole history of its session, as hosts do."""
        is_later = False
        for number, line in enumerate(self._script.lines):
            match line:
                case TurnLine():
                    await self._tell(hooks, line, number)
                case QuestionLine():
                    await self._ask(hooks, line, is_later=is_later)
                case WaitLine(days=days):
                    is_later = True
                    self.clock.advance(days * DAY_MS)
        for session, turns in self._script.turns.items():
            stored_texts, expected_texts = (
                await self.stored_texts(session),
                [text for turn in turns for text in (turn.user, turn.assistant)],
            )
            self._count(
                "persisted_history_echo_rate",
                (Counter(stored_texts) - Counter(expected_texts)).total(),
                len(stored_texts),
            )
            same_count = sum(
                stored_text == expected_text
                for stored_text, expected_text in zip(stored_texts, expected_texts, strict=False)
            )
            self._count("history_equivalence", same_count, max(len(stored_texts), len(expected_texts)))

    async def other_sessions(self, hooks: TurnHooks) -> None:
        """Ask each session the questions of the others.

        No text may be shown that the question expects and this session never stated.
        """
        session_texts = {
            session: normalise_text("\n".join(f"{turn.user}\n{turn.assistant}" for turn in turns))
            for session, turns in self._script.turns.items()
        }
        for line in self._script.lines:
            if not isinstance(line, QuestionLine):
                continue
            for session in session_texts.keys() - {line.session}:
                foreign_texts = [text for text in line.expects if normalise_text(text) not in session_texts[session]]
                if foreign_texts:
                    reference = await self._reference(hooks, line.user, session)
                    self._count("session_isolation_leak", bool(_count_held(foreign_texts, reference)), 1)

    async def repeats(self, hooks: TurnHooks) -> None:
        """Send each session's turns to a new session, again under the same ids, and then under new ids."""
        for number, turns in enumerate(self._script.turns.values()):
            session = f"evaluation.repeats-{number}"
            pairs = [(turn.user, turn.assistant) for turn in turns]
            await self.tell_pairs(hooks, pairs, session=session)
            contents_before = await self.stored_texts(session), await self.facts_of(session)
            await self.tell_pairs(hooks, pairs, session=session)
            self._count(
                "idempotency", contents_before == (await self.stored_texts(session), await self.facts_of(session)), 1
            )
            await self.tell_pairs(hooks, pairs, session=session, ids="again")
            self._count("duplicate_growth", len(await self.facts_of(session)), len(contents_before[1]))

    async def compaction(self, hooks: TurnHooks) -> None:
        """Request contexts for the longest session at several shares of the limit."""
        turns = max(self._script.turns.values(), key=len)
        if len(turns) < _COMPACTED_FROM:
            return
        pairs = [(turn.user, turn.assistant) for turn in turns]
        right_count = await self.compacted_rightly(
            hooks, pairs, session="evaluation.compaction", question=turns[-1].user
        )
        self._count("compaction_triggers", right_count, len(SHARES))

    async def _tell(self, hooks: TurnHooks, line: TurnLine, number: int) -> None:
        """Send one turn whose answer repeats the reference block, as models sometimes do."""
        history = self._histories.setdefault(line.session, [])
        history.append({"role": "user", "content": line.user})
        async with hooks.turn(history, session_id=line.session, turn_id=f"t{number}") as turn:
            context_items = Counter(item.identity for item in items_of(turn.messages))
            host_items = Counter(item.identity for item in items_of(history))
            self._count(
                "prompt_duplicate_rate",
                (context_items - host_items - Counter(set(context_items))).total(),
                context_items.total(),
            )
            reference_texts = [str(item.words) for item in items_of(turn.messages) if is_reference(item)]
            turn.answered("\n".join([line.assistant, *reference_texts]))
        history.append({"role": "assistant", "content": line.assistant})

    async def _ask(self, hooks: TurnHooks, line: QuestionLine, *, is_later: bool) -> None:
        fact_text = normalise_text("\n".join(await self.recalled_facts(hooks, line.user, session=line.session)))
        right_count, wrong_count = _count_held(line.expects, fact_text), _count_held(line.excludes, fact_text)
        self._count("fact_recall_recall", right_count, len(line.expects))
        self._count("fact_recall_precision", right_count, right_count + wrong_count)
        if is_later:
            self._count("durable_fact_survival", right_count, len(line.expects))
            self._count("expired_fact_suppression", len(line.excludes) - wrong_count, len(line.excludes))

    async def _reference(self, hooks: TurnHooks, question: str, session: str) -> str:
        """Return the normalised text that memory adds to the context of a question."""
        async with hooks.turn(question, session_id=session, conversation=ASKING) as turn:
            return normalise_text("\n".join(str(item.words) for item in items_of(turn.messages) if is_reference(item)))

    def _count(self, name: str, part: float, whole: float) -> None:
        self._parts[name] += int(part)
        self._wholes[name] += int(whole)


def _count_held(texts: Sequence[str], context: str) -> int:
    return sum(normalise_text(text) in context for text in texts)
