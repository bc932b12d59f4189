"""Scripted sessions with coding assistants: 200 labelled prompts in five repositories, read from TOML files.

A turn that states something has a `name` and a `fact`: words of the statement without which it is useless. A turn that
needs such statements lists their names in `evidence`. They were made in earlier sessions of the same repository, or
anywhere if they are `personal`. A turn with neither is *unrelated*: nothing said before helps with it, although some of
these prompts ask for something that only another repository knows. The `canaries` are words that belong to one
repository.

The prompts were written before the hooks that they measure, and are not adapted to them.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

DATA: Final = Path(__file__).parent / "assistants_data"


class ScriptedCommand(NamedTuple):
    """A command that the assistant ran."""

    line: str
    exit_code: int
    output: str


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """A prompt with its answer and its label."""

    prompt: str
    reply: str
    name: str = ""
    fact: str = ""
    personal: bool = False
    evidence: tuple[str, ...] = ()
    commands: tuple[ScriptedCommand, ...] = ()

    @property
    def is_unrelated(self) -> bool:
        """Return whether nothing said before helps with the prompt, and it states nothing worth storing."""
        return not self.fact and not self.evidence

    @property
    def texts(self) -> tuple[str, ...]:
        """Return every text and command of the turn."""
        return (
            self.prompt,
            self.reply,
            *(part for command in self.commands for part in (command.line, command.output)),
        )


@dataclass(frozen=True, slots=True)
class ScriptedSession:
    """A session of one host in one repository. `number` counts the repository's sessions from 0."""

    repository: str
    number: int
    host: str
    turns: tuple[ScriptedTurn, ...]


@dataclass(frozen=True, slots=True)
class SessionScript:
    """All sessions in chronological order, and what belongs to only one repository."""

    sessions: tuple[ScriptedSession, ...]
    canaries: Mapping[str, tuple[str, ...]]

    @property
    def repositories(self) -> tuple[str, ...]:
        """Return the names of the repositories."""
        return tuple(self.canaries)

    @property
    def facts(self) -> dict[str, str]:
        """Return the words of each statement by name."""
        return {turn.name: turn.fact for session in self.sessions for turn in session.turns if turn.name}

    def foreign_words(self, repository: str, /) -> tuple[str, ...]:
        """Return the words that no block in `repository` may contain: canaries and facts of the others."""
        canaries = [word for name, words in self.canaries.items() if name != repository for word in words]
        facts = [
            turn.fact
            for session in self.sessions
            for turn in session.turns
            if turn.fact and not turn.personal and session.repository != repository
        ]
        return (*canaries, *facts)

    def shortened(self) -> "SessionScript":
        """Return, for each repository, one prompt with evidence, the turns it needs, and one unrelated prompt."""
        chosen = {name for repository in self.repositories for name in self._short_turns(repository)}
        sessions = (
            replace(session, turns=tuple(turn for turn in session.turns if turn.prompt in chosen))
            for session in self.sessions
        )
        return replace(self, sessions=tuple(session for session in sessions if session.turns))

    def _short_turns(self, repository: str) -> Iterator[str]:
        """Yield the prompts of the short form. Each repository uses a different prompt with evidence."""
        own = [session for session in self.sessions if session.repository == repository]
        place = self.repositories.index(repository)
        needing = [turn for session in own for turn in session.turns if turn.evidence][-1 - place]
        yield needing.prompt
        yield from (turn.prompt for session in self.sessions for turn in session.turns if turn.name in needing.evidence)
        unrelated = [turn for session in own[1:] for turn in session.turns if turn.is_unrelated]
        yield unrelated[place].prompt


def plain_text(text: str, /) -> str:
    """Return `text` in lower case with single spaces, for comparison."""
    return " ".join(text.casefold().split())


def has_words(text: str, words: str, /) -> bool:
    """Return whether `text` contains `words` as whole words, ignoring case and spacing."""
    return re.search(rf"(?<!\w){re.escape(plain_text(words))}(?!\w)", plain_text(text)) is not None


def read_script(folder: Path = DATA, /) -> SessionScript:
    """Read the sessions of all files, ordered by session number and then by repository.

    Raises ValueError for labels that contradict the texts.
    """
    files = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.toml"))}
    sessions = [
        ScriptedSession(name, number, entry["host"], tuple(map(_scripted_turn, entry["turns"])))
        for name, content in files.items()
        for number, entry in enumerate(content["sessions"])
    ]
    script = SessionScript(
        tuple(sorted(sessions, key=lambda session: session.number)),
        {name: tuple(content["canaries"]) for name, content in files.items()},
    )
    if problems := list(_label_problems(script)):
        raise ValueError("\n".join(problems))
    return script


def _scripted_turn(entry: Mapping[str, Any]) -> ScriptedTurn:
    lists = {"evidence", "commands"}
    commands = tuple(ScriptedCommand(*command) for command in entry.get("commands", ()))
    rest = {name: value for name, value in entry.items() if name not in lists}
    return ScriptedTurn(**rest, evidence=tuple(entry.get("evidence", ())), commands=commands)


def _label_problems(script: SessionScript) -> Iterator[str]:
    """Yield the problems of the labels."""
    homes = {turn.name: (session, turn) for session in script.sessions for turn in session.turns if turn.name}
    for session in script.sessions:
        foreign = script.foreign_words(session.repository)
        own = script.canaries[session.repository]
        for turn in session.turns:
            text = "\n".join(turn.texts)
            yield from (
                f"{turn.prompt}: has {word!r} of another repository" for word in foreign if has_words(text, word)
            )
            if turn.fact and not has_words(f"{turn.prompt}\n{turn.reply}", turn.fact):
                yield f"{turn.prompt}: does not say {turn.fact!r}"
            if turn.personal and any(has_words(text, word) for word in own):
                yield f"{turn.prompt}: is personal but names its repository"
            for name in turn.evidence:
                home, statement = homes[name]
                if home.number >= session.number or not (statement.personal or home.repository == session.repository):
                    yield f"{turn.prompt}: cannot know {name!r}"
                if has_words(turn.prompt, statement.fact):
                    yield f"{turn.prompt}: says {name!r} itself"


def describe_script(script: SessionScript, /) -> str:
    """Return a line with the numbers of sessions, prompts and labels."""
    turns: Sequence[ScriptedTurn] = [turn for session in script.sessions for turn in session.turns]
    stating = sum(bool(turn.fact) for turn in turns)
    needing = sum(bool(turn.evidence) for turn in turns)
    return (
        f"{len(turns)} prompts in {len(script.sessions)} sessions of {len(script.repositories)} repositories:"
        f" {stating} state something, {needing} need it later, {sum(turn.is_unrelated for turn in turns)} are unrelated"
    )
