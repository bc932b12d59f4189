"""Long conversations of one person with an assistant, constructed for measurement: about 100,000 tokens each.

The person's statements (`benchmarks/quality_data/long`), the questions, and the assistant's sentences that questions
ask for are written by hand. The rest is generated from templates and the words of the subject, identically in every
run: answers of 200 to 800 words with headings, lists and code, which refer to earlier messages and contain the words of
every question somewhere; and small talk of the person about the same things.
"""

import json
import random
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.quality_sets import Question, Told, Turn

LONG = Path(__file__).parent / "quality_data" / "long"
SMALL_TALK = 11
"""Number of exchanges per session about which nothing is asked, in addition to those written by hand."""
RECALLED = 0.3
"""How often the assistant returns to something said earlier."""

_FRAMES = (
    "The {noun} should be {adjective} before you {verb} the {other}.",
    "Start with the {noun}: {verb} it in small steps and write down what changes.",
    "A {adjective} {noun} is usually better than a {adjective2} one, especially when the {other} is limited.",
    "Check the {noun} at least once a week, and compare it with the {other}.",
    "If the {noun} turns out to be {adjective}, {verb} the {other} first and come back later.",
    "Most people underestimate how much time it takes to {verb} the {noun} properly.",
    "Keep a short list of everything that depends on the {noun}, so that nothing gets lost.",
    "For the {noun}, {number} to {number2} days are realistic; plan one more for surprises.",
    "It is often cheaper to {verb} the {noun} yourself, but the {other} may need somebody with experience.",
    "Think about how the {noun} and the {other} work together, not only about each of them.",
    "Avoid a {adjective} {noun} in the beginning, since it makes the {other} harder to {verb}.",
    "You can {verb} the {noun} again when the {other} is ready.",
    "As a rule of thumb, spend about {number} percent of your effort on the {noun}.",
    "Ask somebody you trust to look at the {noun} with fresh eyes.",
    "The most common mistake is to {verb} the {noun} too early.",
    "Note the date on which you {verb} the {noun}, and the reason for it.",
    "When in doubt, choose the {adjective} option and revisit the {noun} after {number} weeks.",
    "Your {noun} does not have to be perfect, only {adjective} enough for the next step.",
    "The {other} will tell you quickly whether the {noun} is {adjective}.",
    "Make sure that you can undo what you do to the {noun}.",
)
_BULLETS = (
    "**{Noun}**: {verb} it, then {verb2} the {other}.",
    "**{Noun}**: keep it {adjective}.",
    "Decide who is responsible for the {noun}.",
    "**{Noun} and {other}**: {number} checks, {number2} minutes each.",
    "{Verb} the {noun} while the {other} is still {adjective}.",
    "Set a limit for the {noun} and stick to it.",
    "**Why the {noun} matters**: a {adjective} {other} depends on it.",
)
_OPENINGS = (
    "Great question! {said}",
    "That makes sense. {said}",
    "Thanks for the details. {said} Here is how I would go about it.",
    "Certainly! {said} Let's take it step by step.",
    "{said} Let me break this down.",
    "Good to know. {said} Below you find an overview.",
)
_HEADINGS = ("Preparing the {noun}", "Working on the {noun}", "{Noun}: what to watch out for", "Choosing a {noun}",
             "A plan for the {noun}", "Common problems with the {noun}")  # fmt: skip
_CLOSINGS = (
    "Let me know if you would like more details on any of these points!",
    "Would you like me to go deeper into the {noun}?",
    "If anything is unclear, tell me how your {noun} looks right now and we will adjust the plan.",
    "Feel free to share your {noun} and I will have a look.",
    "In summary, the {noun} comes first, then the {other}, and everything else can wait.",
)
_ASKED = (
    "Can you explain how the {noun} affects the {other}?",
    "Okay, and what about the {noun}? I'm not sure how to {verb} it.",
    "Thanks. Next I'd like to look at the {noun}. Any tips?",
    "I tried to {verb} the {noun} yesterday, but it was too {adjective}. What did I do wrong?",
    "What's the difference between a {adjective} {noun} and a {adjective2} one?",
    "How do I {verb} the {noun} without touching the {other}?",
    "I've been reading about the {noun}. Is it worth it in my case?",
    "Could you give me a checklist for the {noun}?",
    "My {noun} looks {adjective} to me. How would you improve it?",
    "That helped, thank you! One more thing: should I {verb} the {noun} before or after the {other}?",
    "I'm a bit lost with the {noun}. Where do I begin?",
    "What would you do about the {noun} if you were me?",
)
_ABOUT_YOU = (
    (r"\bI'm\b", "you're"), (r"\bI've\b", "you've"), (r"\bI'd\b", "you'd"), (r"\bI'll\b", "you'll"),
    (r"\bI was\b", "you were"), (r"\bI am\b", "you are"), (r"\bI\b", "you"), (r"\b[Mm]y\b", "your"),
    (r"\b[Oo]ur\b", "your"), (r"\bme\b", "you"), (r"\bmyself\b", "yourself"), (r"\bWe're\b", "you're"),
    (r"\bWe've\b", "you've"), (r"\b[Ww]e\b", "you"), (r"\bus\b", "you"),
)  # fmt: skip
"""How a person's statement about himself is repeated back to him."""


def long_chats() -> list[Told]:
    """Return the long conversations, each as its own space."""
    return [_told(json.loads(path.read_text("utf-8"))) for path in sorted(LONG.glob("*.json"))]


class _Writer:
    """Generate the assistant's answers and the person's small talk."""

    def __init__(self, subject: dict[str, Any], /) -> None:
        self._subject = subject
        self._random = random.Random(subject["name"])
        self._said: list[str] = []

    def asked(self, about: Sequence[str]) -> str:
        return self._filled(self._random.choice(_ASKED), about)

    def answer(self, said: str, about: Sequence[str], key: str) -> str:
        """Return a long answer to `said` that contains the sentence `key` somewhere in the middle."""
        choice, words = self._random.choice, self._random.randint(200, 800)
        parts = [choice(_OPENINGS).format(said=restated(said))]
        if self._said and self._random.random() < RECALLED:
            parts.append(f"Earlier you mentioned: {restated(choice(self._said))} That matters here, too.")
        count = 0
        while sum(len(part.split()) for part in parts) < words:
            count += 1
            parts.append(f"### {count}. {self._filled(choice(_HEADINGS), about)}")
            sentences = [self._filled(choice(_FRAMES), about) for _ in range(self._random.randint(2, 4))]
            parts.append(" ".join([*sentences, key] if key and count == 2 else sentences))
            parts.append(
                "\n".join(f"- {self._filled(choice(_BULLETS), about)}" for _ in range(self._random.randint(3, 6)))
            )
            if self._subject["code"] and self._random.random() < 0.4:
                parts.append(f"```\n{choice(self._subject['code'])}\n```")
        self._said.append(said)
        return "\n\n".join([*parts, self._filled(choice(_CLOSINGS), about)])

    def _filled(self, frame: str, about: Sequence[str]) -> str:
        subject, choice = self._subject, self._random.choice
        noun = choice(about) if self._random.random() < 0.5 else choice(subject["nouns"])
        verb = choice(subject["verbs"])
        return frame.format(
            noun=noun, Noun=noun.capitalize(), other=choice(subject["nouns"]), verb=verb, Verb=verb.capitalize(),
            verb2=choice(subject["verbs"]), adjective=choice(subject["adjectives"]),
            adjective2=choice(subject["adjectives"]), number=self._random.randint(2, 9),
            number2=self._random.randint(10, 40),
        )  # fmt: skip


def _told(subject: dict[str, Any]) -> Told:
    writer, shuffled = _Writer(subject), random.Random(subject["about"])
    turns: list[Turn] = []
    for number, session in enumerate(subject["sessions"], 1):
        at = datetime.fromisoformat(session["at"])
        places = sorted(shuffled.sample(range(SMALL_TALK + len(session["said"])), len(session["said"])))
        written = dict(zip(places, session["said"], strict=True))
        for place in range(SMALL_TALK + len(session["said"])):
            id_, said, *key = written.get(place) or (f"{number}-{place}", writer.asked(session["about"]))
            if len(said) < 200 and place in written and "?" not in said and shuffled.random() < 0.5:
                said = f"{said} {writer.asked(session['about'])}"
            at += timedelta(minutes=shuffled.randint(2, 9))
            told = said if place in written else ""
            turns.append(Turn(id_, f"session-{number}", "user", "user", at, said, told))
            answer = writer.answer(said, session["about"], *key or ("",))
            turns.append(Turn(f"{id_}a", f"session-{number}", "assistant", "assistant", at, answer, *key))
    questions = tuple(Question(kind, text, frozenset(gold)) for kind, text, gold in subject["questions"])
    known = {turn.id for turn in turns}
    assert all(question.gold <= known for question in questions), subject["name"]
    return Told(subject["name"], tuple(turns), questions)


def restated(said: str) -> str:
    """Return the first sentences of `said`, rephrased for the other person."""
    text = " ".join(re.split(r"(?<=[.!?]) ", said)[:2]).rstrip("?!.")
    for own, theirs in _ABOUT_YOU:
        text = re.sub(own, theirs, text)
    return f"So {text[0].lower()}{text[1:]}."
