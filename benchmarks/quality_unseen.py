"""Conversations that were written before anybody looked at what recall makes of them.

There are six long ones of a person with an assistant (100,000 to 180,000 tokens each) and three of two or three people
over more than a year, with questions of ten kinds: abstention ("nothing"), contradiction, order, extraction,
instruction, update, multi-session, preference, summary and temporal. People's statements, the questions, and the
assistant's sentences that questions ask for are written by hand (`benchmarks/quality_data/unseen`). The filling of the
long ones is generated from sentences that each of them provides. `clockmaker`, `ledger` and `flatmates` are newer and
longer than the others; about half of their questions are paraphrased, and `flatmates` is written in slang. No weight,
word or rule of recall may be chosen by looking at single questions here.
"""

import json
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.quality_long import restated
from benchmarks.quality_sets import Question, Told, Turn, background, turns_of

UNSEEN = Path(__file__).parent / "quality_data" / "unseen"
FILLING = 13
"""Number of exchanges per session about which nothing is asked."""

_TAKEN_UP = (
    "Understood: {said}",
    "You write that {said}",
    "Let me start from what you told me, that {said}",
    "Noted, {said}",
)
_TURNS = (
    "One thing at a time.",
    "Two remarks before the details.",
    "Here is how I see it.",
    "It depends, so let me explain.",
    "There is a short answer and a long one.",
)  # fmt: skip
_ENDS = (
    "Tell me how it goes.", "Shall I write this out in full?", "We can return to the {noun} next time.",
    "If you send me the {noun}, I can be more precise.", "That should carry you through the week.", "",
)  # fmt: skip


def unseen() -> list[Told]:
    """Return the conversations, each as its own space."""
    return [_told(json.loads(path.read_text("utf-8"))) for path in sorted(UNSEEN.glob("*.json"))]


class _Filler:
    """Generate exchanges about which nothing is asked, from the sentences that a conversation provides for this."""

    def __init__(self, subject: dict[str, Any], /) -> None:
        self._subject = subject
        self._random = random.Random(subject["about"])

    def asked(self, about: Sequence[str]) -> str:
        count = 1 if self._random.random() < 0.7 else 2
        return " ".join(self._filled(frame, about) for frame in self._random.sample(self._subject["asks"], count))

    def answer(self, said: str, about: Sequence[str], key: str) -> str:
        """Return a long answer to `said` with the sentence `key` in its second paragraph."""
        pick, chance = self._random.choice, self._random.random
        words, parts = self._random.randint(150, 650), [pick(_TURNS)]
        if chance() < 0.6:
            taken = restated(said).removeprefix("So ")
            parts[0] = f"{pick(_TAKEN_UP).format(said=taken)} {parts[0]}"
        while sum(len(part.split()) for part in parts) < words:
            sentences = [self._filled(frame, about) for frame in self._random.sample(self._subject["frames"], 4)]
            if len(parts) == 1 and key:
                sentences.insert(2, key)
            parts.append(" ".join(sentences))
            if chance() < 0.35:
                steps = self._random.sample(self._subject["frames"], 4)
                parts.append("\n".join(f"{n}. {self._filled(step, about)}" for n, step in enumerate(steps, 1)))
            if self._subject["code"] and chance() < 0.3:
                parts.append(f"```\n{pick(self._subject['code'])}\n```")
        return "\n\n".join([*parts, self._filled(pick(_ENDS), about)]).rstrip()

    def _filled(self, frame: str, about: Sequence[str]) -> str:
        subject, pick = self._subject, self._random.choice
        return frame.format(
            noun=pick(about) if self._random.random() < 0.4 else pick(subject["nouns"]), noun2=pick(subject["nouns"]),
            verb=pick(subject["verbs"]), adjective=pick(subject["adjectives"]), adjective2=pick(subject["adjectives"]),
            number=self._random.randint(2, 8), number2=self._random.randint(9, 60),
        )  # fmt: skip


def _told(subject: dict[str, Any]) -> Told:
    turns = _with_assistant(subject) if "asks" in subject else [*turns_of(subject["sessions"]), *background()]
    questions = tuple(Question(kind, text, frozenset(gold)) for kind, text, gold in subject["questions"])
    known = {turn.id for turn in turns}
    assert all(question.gold <= known for question in questions), subject["name"]
    return Told(subject["name"], tuple(turns), questions)


def _with_assistant(subject: dict[str, Any]) -> list[Turn]:
    filler, shuffled = _Filler(subject), random.Random(subject["name"])
    turns: list[Turn] = []
    for number, session in enumerate(subject["sessions"], 1):
        at, count = datetime.fromisoformat(session["at"]), FILLING + len(session["said"])
        written = dict(zip(sorted(shuffled.sample(range(count), len(session["said"]))), session["said"], strict=True))
        for place in range(count):
            id_, said, *key = written.get(place) or (f"{number}-{place}", filler.asked(session["about"]))
            told = said if place in written else ""
            if place in written and "?" not in said and shuffled.random() < 0.4:
                said = f"{said} {filler.asked(session['about'])}"
            at += timedelta(minutes=shuffled.randint(3, 12))
            turns.append(Turn(id_, f"session-{number}", "user", "user", at, said, told))
            answer = filler.answer(said, session["about"], *key or ("",))
            turns.append(Turn(f"{id_}a", f"session-{number}", "assistant", "assistant", at, answer, *key))
    return turns
