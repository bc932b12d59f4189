"""Conversations with questions whose evidence is known: the bundled constructed sets, and files in LoCoMo's format.

A constructed set is `benchmarks/quality_data/NAME.json`: turns, and questions that name the turns with their evidence.
Questions of the kind "nothing" have none, because nothing there answers them. Each constructed set is combined with the
long conversation in `fixtures/conversations`, among whose turns its own have to be found.
"""

import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

MADE = Path(__file__).parent / "quality_data"
BACKGROUND = Path(__file__).parents[1] / "fixtures" / "conversations" / "harbour.jsonl"
NOTHING = "nothing"
"""Asks for an unknown detail of something that was mentioned."""
ELSEWHERE = "elsewhere"
"""Asks about a matter that was never mentioned."""
UNANSWERED = frozenset((NOTHING, ELSEWHERE))
APART = "5 adversarial"
KINDS = {1: "1 multi-hop", 2: "2 temporal", 3: "3 open-domain", 4: "4 single-hop", 5: APART}

_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class Turn:
    id: str
    conversation: str
    speaker: str
    role: str
    at: datetime | None
    text: str
    key: str = ""
    """The part of a long text that is asked for; empty for all of it."""


@dataclass(frozen=True, slots=True)
class Question:
    kind: str
    text: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Told:
    """The content and the questions of one space."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    def turn(self, id_: str, /) -> Turn:
        """Return a turn by its id."""
        return next(turn for turn in self.turns if turn.id == id_)


def made() -> list[Told]:
    """Return the constructed sets, each among the turns of the background conversation."""
    return [_made(path) for path in sorted(MADE.glob("*.json"))]


def locomo(path: Path, corrections: Sequence[Path] = (), /) -> list[Told]:
    """Return the conversations of a file in LoCoMo's format, with picture captions as part of the texts.

    Files of `corrections` list questions with their `correct_evidence`, which replaces that of the data.
    """
    corrected: dict[str, list[str]] = {}
    for file_of_corrections in corrections:
        for error in json.loads(file_of_corrections.read_text(encoding="utf-8")):
            corrected[error["question"]] = error["correct_evidence"]
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return [_locomo(sample, corrected) for sample in json.load(file)]


def _made(path: Path) -> Told:
    told = json.loads(path.read_text("utf-8"))
    turns = [
        Turn(
            turn["id"],
            turn["conversation"],
            turn["speaker"],
            turn["role"],
            datetime.fromisoformat(turn["at"]),
            turn["text"],
        )
        for turn in told["turns"]
    ]
    questions = [Question(each["kind"], each["text"], frozenset(each["gold"])) for each in told["questions"]]
    known = {turn.id for turn in turns}
    assert all(question.gold <= known for question in questions), path.name
    return Told(told["name"], (*turns, *background()), tuple(questions))


def background() -> Iterable[Turn]:
    """Yield the long conversation of other people."""
    for number, line in enumerate(BACKGROUND.read_text("utf-8").splitlines(), 1):
        said = json.loads(line)
        at = datetime.fromisoformat(said["timestamp"])
        yield Turn(f"harbour-{number}", said["conversation"], said["name"], said["role"], at, said["content"])


def turns_of(sessions: Sequence[dict[str, Any]], /) -> Iterable[Turn]:
    """Yield the turns of `sessions`, one minute apart. A speaker named "assistant" is one."""
    for number, session in enumerate(sessions, 1):
        at = datetime.fromisoformat(session["at"])
        for minutes, (id_, speaker, text) in enumerate(session["said"]):
            role = "assistant" if speaker == "assistant" else "user"
            yield Turn(id_, f"day-{number}", speaker, role, at + timedelta(minutes=minutes), text)


def _locomo(sample: dict[str, Any], corrected: Mapping[str, list[str]]) -> Told:
    said, turns = sample["conversation"], list[Turn]()
    for number in range(1, 100):
        at = _moment(said.get(f"session_{number}_date_time", ""))
        for turn in said.get(f"session_{number}") or ():
            caption = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            text = f"{turn.get('text') or ''}{caption}".strip()
            turns.append(Turn(turn["dia_id"], f"session-{number}", turn["speaker"], "user", at, text))
    known = {turn.id for turn in turns}
    questions: list[Question] = []
    for asked in sample["qa"]:
        evidence = corrected.get(asked["question"], asked.get("evidence", ()))
        named = {f"D{int(a)}:{int(b)}" for each in evidence for a, b in _EVIDENCE.findall(each)}
        if named & known:
            questions.append(Question(KINDS[asked["category"]], asked["question"], frozenset(named & known)))
    return Told(sample["sample_id"], tuple(turns), tuple(questions))


def _moment(text: str) -> datetime | None:
    try:
        return datetime.strptime(text.strip(), "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    except ValueError:
        return None
