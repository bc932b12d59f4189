"""Input of a run: its limits, text and images, and whether the same input was submitted before."""

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from elytron_agent import limits
from elytron_agent.loop.tools import describe_images, digests_of
from elytron_agent.runs.events import ANSWERS, RunEnded, StopReason
from elytron_agent.runs.journal import RunInput, RunJournal, RunRecord
from elytron_agent.runs.settings import AgentSettings, RunDeadline, WorkCancelled, finish_work
from elytron_agent.runs.source import AgentParts
from elytron_agent.strategies.strategy import MemoryStrategy, RunEnding, TurnExchange
from elytron_core.errors import AlreadyExists, ElytronError, IdempotencyConflict, InvalidInput, PermissionRefused
from elytron_core.policy.admission.own_output import strip_own_output
from elytron_core.policy.redaction import scrub_secrets
from elytron_core.ports.chat import Message
from elytron_turn.sizes import window_of

MAX_IMAGES: Final = 8


class TurnOpening(NamedTuple):
    """Additional parts of a turn from a client that sends more than a user's text."""

    before: tuple[Message, ...] = ()
    """Messages before the text, which may then be empty."""
    after: str | None = None
    """The run that must be the last one of the thread."""
    asks: bool = True
    """If False, the messages are added without asking the model."""


PLAIN: Final = TurnOpening()


class RunWords(NamedTuple):
    """A host's text and images, with the run id if the host chose one."""

    run: str | None
    text: str
    images: Sequence[str]


def check_input(settings: AgentSettings, text: str, images: Sequence[str], /, *, opening: TurnOpening = PLAIN) -> None:
    """Raise PermissionRefused if the agent is disabled, InvalidInput if the text or images exceed the limits."""
    if not settings.enabled:
        raise PermissionRefused("this agent is not enabled: set `enabled` in its settings")
    if not text.strip() and not images and not opening.before:
        raise InvalidInput(field="text", problem="is empty")
    if len(text) > limits.INPUT_CHARS:
        raise InvalidInput(field="text", problem=f"has more than {limits.INPUT_CHARS} characters")
    if len(images) > MAX_IMAGES:
        raise InvalidInput(field="images", problem=f"exceed the limit of {MAX_IMAGES}")
    if any(len(url) > limits.IMAGE_URL_CHARS for url in images):
        raise InvalidInput(field="images", problem=f"have more than {limits.IMAGE_URL_CHARS} characters")


async def known_run(journal: RunJournal, words: RunWords, /, *, is_stored: bool) -> RunRecord | None:
    """Return what is stored of a host's run.

    Raises IdempotencyConflict if it began with other input, AlreadyExists if it was erased since, InvalidInput for an
    id that would be redacted.
    """
    run_id = words.run
    if run_id is not None and scrub_secrets(run_id).text != run_id:
        raise InvalidInput(field="run_id", problem="looks like a credential and would be redacted: choose another")
    record = await journal.load(run_id) if run_id is not None else None
    if record is None:
        if run_id is not None and await journal.has_begun(run_id):
            problem = "names a turn that was erased and is not stored again: use a new id"
            raise AlreadyExists(what="run", name=run_id, problem=problem)
        return None
    if not is_stored or not _is_same(record.input, words):
        raise IdempotencyConflict
    return record


async def input_of(
    parts: AgentParts,
    words: RunWords,
    deadline: RunDeadline,
    /,
    *,
    is_stored: bool,
    schedule: str | None = None,
    opening: TurnOpening = PLAIN,
) -> RunInput:
    """Return the input of a new run: the text without copies of the memory block, and descriptions of the images."""
    text = words.text
    if words.images:
        vision_model = parts.models.vision
        window = window_of(vision_model, parts.window.tokens)
        description = await describe_images(vision_model, words.images, text, window=window, deadline=deadline)
        text = description[: limits.INPUT_CHARS]
    text = strip_own_output(text).text
    if not text and not opening.before:
        raise InvalidInput(field="text", problem="contains only text that memory supplied")
    return RunInput(
        run=words.run or parts.ids.new(),
        at=parts.clock.now(),
        text=text,
        thread=parts.thread.name,
        images=digests_of(words.images),
        is_stored=is_stored,
        schedule=schedule,
        before=opening.before,
        asks=opening.asks,
    )


def _is_same(stored_input: RunInput, words: RunWords) -> bool:
    """Return whether a run began with this text and these images.

    Its stored text also contains the image descriptions.
    """
    own_text = scrub_secrets(strip_own_output(words.text).text).text
    is_same = (
        stored_input.text.startswith(f"{own_text}\n[image" if own_text else "[image")
        if words.images
        else stored_input.text == own_text
    )
    return is_same and stored_input.images == digests_of(words.images)


logger = logging.getLogger(__name__)


def end_of(record: RunRecord, /) -> RunEnded:
    """Return the RunEnded event of a run that is over."""
    run_end = record.end
    assert run_end is not None
    return RunEnded(
        run=record.input.run,
        reason=run_end.reason,
        text=record.text,
        problem=run_end.problem,
        usage=run_end.usage,
        turn=run_end.turn,
        calls=record.open_calls if run_end.reason is StopReason.HANDED else (),
    )


async def tell_end(strategy: MemoryStrategy | None, record: RunRecord, /) -> None:
    """Report a run's end to the strategy. A crash may hide an earlier report, so every report has the same content."""
    run_end = record.end
    if strategy is None or run_end is None or not record.input.is_stored:
        return
    asked_at = record.input.at
    exchange = TurnExchange(
        prompt=record.input.text,
        answer=record.text,
        asked_at=asked_at,
        answered_at=max(run_end.at if run_end.at is not None else asked_at, asked_at),
        ending=RunEnding.COMPLETED if run_end.reason in ANSWERS else RunEnding.FAILED,
        turn=record.input.run,
        is_stored=True,
    )
    try:
        await finish_work(strategy.after_run(record.input.thread, exchange))
    except (ElytronError, OSError, WorkCancelled) as error:
        # The end is already stored, so a failing strategy must not stop the thread.
        logger.warning("a strategy could not handle the end of a run (%s)", type(error).__name__)
