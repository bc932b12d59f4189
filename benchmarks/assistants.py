"""Memory in coding assistants: scripted sessions of each host, replayed through the real hook commands.

    python -m benchmarks.assistants [--short] [--as HOST] [--show]

The sessions of `benchmarks.assistant_sessions` take place in Git repositories created for this purpose, in the order of
their numbers, every second one in a worktree. Every event is a process of `elytron hooks` that receives what the host
would write: at the start, at each prompt, after each answer and at the end, if the host has that event. A resident
process serves them where the system supports one. The table shows

- leaks: blocks with a word of another repository;
- program words: blocks with text that a program, not the person, wrote in the user's role;
- prompts that are stored, in the person's words;
- unrelated prompts with a block: those with which nothing said before helps;
- evidence: statements whose words were shown in the session before the prompt that needs them was answered. It is
  compared with blocks of the same size without the precision gate, which this process builds from the same store, and
  shown once more without evidence from the start or an earlier prompt of the session, which is the gate's own share;
- characters, processor time (of the hook and the resident process) and duration of each prompt;
- processes that existed next to a hook, and those that remain after the store is gone.

`--short` replays a few prompts. The exit code is 1 if there is a leak, a program's word or a remaining process, or if
no evidence is shown at all.
"""

import argparse
import asyncio
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import elytron
from benchmarks.assistant_hosts import EVENTS, HOSTS, PROGRAM_WORD, HostSession, context_of
from benchmarks.assistant_sessions import (
    ScriptedSession,
    ScriptedTurn,
    SessionScript,
    describe_script,
    has_words,
    plain_text,
    read_script,
)
from elytron.runtime import MemoryRuntime
from elytron_assistants.project_registry import PERSON_SPACE, ProjectMemory, project_memory
from elytron_assistants.tiers import TieredMemory
from elytron_core.contracts.memories import MemoryListRequest
from elytron_core.contracts.projection import MemoryProjectionRequest
from elytron_core.contracts.recall import RecallFilters, RecallGate, RecallPlane
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import Scope

CLI: Final = (sys.executable, "-c", "from elytron_cli.main import run_command_line; run_command_line()")
BLOCK_CHARS: Final = 800
LISTED: Final = 100
"""A number larger than the number of prompts in any repository."""
HOOK_WAIT_S, END_WAIT_S, LATE_S = 60, 15, 2.0
FIRST_DAY: Final = timedelta(days=60)
"""How long ago the first session took place. Two sessions of a repository are one day apart."""
_SET_CHILD_SUBREAPER: Final = 36
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class HookRun(NamedTuple):
    """The result of one hook: what it gave to the model, and its cost."""

    context: str
    cpu_s: float
    wall_s: float
    problem: str


@dataclass(slots=True)
class ReplayCounts:
    """The counts of a replay."""

    prompts: int = 0
    unrelated: int = 0
    statements: int = 0
    shown: Counter[str] = field(default_factory=Counter[str])
    """Prompts with a block, by label."""
    ungated_alarms: int = 0
    """Unrelated prompts with a block from the same store without the gate."""
    chars: int = 0
    needed: int = 0
    gated: int = 0
    ungated: int = 0
    new_gated: int = 0
    """Evidence in the block of its prompt that the session had not shown before."""
    new_ungated: int = 0
    new_needed: int = 0
    lost: int = 0
    """Evidence that only the ungated block contains."""
    processes: int = 0
    leaks: list[str] = field(default_factory=list[str])
    program_words: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])
    missed: list[str] = field(default_factory=list[str])
    unstored: list[str] = field(default_factory=list[str])
    false_alarms: list[str] = field(default_factory=list[str])
    runs: dict[str, list[HookRun]] = field(default_factory=lambda: {name: [] for name in EVENTS})


class Workspace:
    """Repositories, a home folder and a store in one folder, with hooks that run as processes in them."""

    def __init__(self, folder: Path, repositories: Sequence[str], /) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.store = folder / "store" / "memory.db"
        for path in (self.home, self.store.parent, folder / "runtime"):
            path.mkdir(mode=0o700, parents=True)
        # Without the last variable, each process would compile the modules that it imports.
        foreign = ("ELYTRON_", "XDG_", "PYTHONDONTWRITEBYTECODE")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(folder / "runtime"),
            "ELYTRON_STATE_DIR": str(folder / "state"),
        }
        for number, name in enumerate(repositories):
            self._make_repository(name, has_origin=number % 2 == 0)

    def session_folder(self, session: ScriptedSession, /) -> Path:
        """Return the folder of a session: every second one is in a worktree."""
        return self.folder / "code" / (f"{session.repository}-next" if session.number % 2 else session.repository)

    def run_hook(self, event: str, session: HostSession, turn: ScriptedTurn | None, /, *, host: str) -> HookRun:
        """Run the hook command for an event and return its result."""
        options = ["--resident", "--per-repository", "--store", str(self.store)]
        if host != "claude-code":
            options += ["--host", host]
        if event == "recall":
            options += ["--max-chars", str(BLOCK_CHARS)]
        fields = session.event(event, turn)
        before_s, began = _spent_cpu(), time.perf_counter()
        run = subprocess.run(
            [*CLI, "hooks", event, *options],
            input=json.dumps(fields, ensure_ascii=False).encode(),
            cwd=session.folder,
            env=self.environment,
            capture_output=True,
            timeout=HOOK_WAIT_S,
            check=False,
        )
        wall_s = time.perf_counter() - began
        problem = (
            f"{host} {event}: {run.returncode}: {run.stderr.decode().strip()}" if run.returncode or run.stderr else ""
        )
        return HookRun(context_of(run.stdout.decode(), fields), _spent_cpu() - before_s, wall_s, problem)

    def _make_repository(self, name: str, *, has_origin: bool) -> None:
        place = self.folder / "code" / name
        place.mkdir(parents=True)
        (place / "README.md").write_text(f"# {name}\n", "utf-8")
        self._git(place, "init", "--quiet", "--initial-branch", "main")
        self._git(place, "add", ".")
        self._git(place, "commit", "--quiet", "--message", f"Begin {name}")
        self._git(place, "worktree", "add", "--quiet", str(place.with_name(f"{name}-next")))
        if has_origin:
            self._git(place, "remote", "add", "origin", f"git@github.com:acme/{name}.git")

    def _git(self, place: Path, *arguments: str) -> None:
        author = ("-c", "user.name=Mara", "-c", "user.email=mara@example.com")
        subprocess.run(["git", *author, *arguments], cwd=place, env=self.environment, check=True)


class SessionReplay:
    """Replay a script in a workspace and count what its prompts receive."""

    def __init__(self, workspace: Workspace, script: SessionScript, /) -> None:
        self.counts = ReplayCounts()
        self._workspace = workspace
        self._script = script
        self._memory: MemoryRuntime | None = None

    async def run(self) -> ReplayCounts:
        """Replay all sessions."""
        try:
            for session in self._script.sessions:
                await self._replay_session(session)
            await self._count_stored()
        finally:
            if self._memory is not None:
                await self._memory.close()
        return self.counts

    async def _replay_session(self, scripted: ScriptedSession) -> None:
        folder = self._workspace.session_folder(scripted)
        at = datetime.now(UTC) - FIRST_DAY + timedelta(days=scripted.number, minutes=len(scripted.repository))
        session = HOSTS[scripted.host](self._workspace.home, folder, f"{scripted.repository}/{scripted.number}", at)
        shown = self._run_event("start", scripted, session, None)
        gated_texts, ungated_texts = [shown], [shown]
        for turn in scripted.turns:
            ungated_texts.append(await self._ungated_block(session, turn))
            block = self._run_event("recall", scripted, session, turn)
            gated_texts.append(block)
            self.counts.ungated_alarms += turn.is_unrelated and bool(ungated_texts[-1])
            self._count_prompt(turn, block, f"{scripted.repository} ({scripted.host}): {turn.prompt.splitlines()[0]}")
            self._count_evidence(turn, gated_texts, ungated_texts)
            session.add_turn(turn)
            self._run_event("keep", scripted, session, turn)
        self._run_event("end", scripted, session, None)

    def _run_event(self, event: str, scripted: ScriptedSession, session: HostSession, turn: ScriptedTurn | None) -> str:
        """Run a hook, if the host has the event, and return what it showed to the model."""
        if event not in session.event_names:
            return ""
        run = self._workspace.run_hook(event, session, turn, host=scripted.host)
        self.counts.runs[event].append(run)
        self.counts.processes = max(self.counts.processes, len(_child_processes()))
        if run.problem:
            self.counts.problems.append(run.problem)
        place = f"{scripted.repository} ({scripted.host}, {event})"
        foreign = self._script.foreign_words(scripted.repository)
        self.counts.leaks += (f"{place}: {word}" for word in foreign if has_words(run.context, word))
        if has_words(run.context, PROGRAM_WORD):
            self.counts.program_words.append(f"{place}: {run.context}")
        return run.context

    def _count_prompt(self, turn: ScriptedTurn, block: str, place: str) -> None:
        counts = self.counts
        counts.prompts += 1
        counts.chars += len(block)
        counts.unrelated += turn.is_unrelated
        counts.statements += bool(turn.fact)
        if block:
            counts.shown["unrelated" if turn.is_unrelated else "statement" if turn.fact else "needing"] += 1
            if turn.is_unrelated:
                counts.false_alarms.append(f"{place}\n{block}")

    def _count_evidence(self, turn: ScriptedTurn, gated: Sequence[str], ungated: Sequence[str]) -> None:
        """Count the evidence that the session showed. The last text of each list belongs to this prompt."""
        counts = self.counts
        for name in turn.evidence:
            fact = self._script.facts[name]
            is_gated, is_ungated = (has_words("\n".join(texts), fact) for texts in (gated, ungated))
            counts.needed += 1
            counts.gated += is_gated
            counts.ungated += is_ungated
            counts.lost += is_ungated and not is_gated
            if not has_words("\n".join(gated[:-1]), fact):
                counts.new_needed += 1
                counts.new_gated += has_words(gated[-1], fact)
                counts.new_ungated += has_words(ungated[-1], fact)
            if not is_gated:
                counts.missed.append(f"{turn.prompt} [{fact}]{' (ungated: shown)' if is_ungated else ''}")

    async def _count_stored(self) -> None:
        """Count the prompts that are stored in the person's words in the memory of their repository."""
        for name in self._script.repositories:
            sessions = [session for session in self._script.sessions if session.repository == name]
            scope = Scope(space=(await self._place_of(self._workspace.session_folder(sessions[0]))).spaces[0])
            filters = RecallFilters(planes=(RecallPlane.TRANSCRIPT,), roles=(EvidenceRole.USER,))
            listed = await self._opened().operate(MemoryListRequest(scope=scope, filters=filters, limit=LISTED))
            texts = {plain_text(hit.text) for hit in listed.items}
            self.counts.unstored += (
                f"{name} ({session.host}): {turn.prompt}"
                for session in sessions
                for turn in session.turns
                if plain_text(turn.prompt) not in texts
            )

    async def _ungated_block(self, session: HostSession, turn: ScriptedTurn) -> str:
        """Return a block of the hook's size from the store without the gate."""
        if not self._workspace.store.exists():
            return ""
        if self._memory is None:
            self._memory = await elytron.open(self._workspace.store)
        place = await self._place_of(session.folder)
        tiers = TieredMemory(self._memory, self._memory.operate, place)
        request = MemoryProjectionRequest(
            scope=Scope(space=PERSON_SPACE, channel="replay", conversation=session.id),
            query=turn.prompt,
            max_chars=BLOCK_CHARS,
            recent_messages_limit=0,
            recall_gate=RecallGate.OFF,
            answers_only=True,
            without_conversation=True,
        )
        report = await tiers.operate(request)
        return report.system_memory_block if report.selected_ids else ""

    def _opened(self) -> MemoryRuntime:
        if self._memory is None:
            raise RuntimeError("no hook has made the store")
        return self._memory

    async def _place_of(self, folder: Path) -> ProjectMemory:
        return await project_memory(self._opened(), folder, person=PERSON_SPACE, cwd=folder)


def adopt_processes() -> None:
    """Make this process the parent of orphaned descendants, where the system supports it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _child_processes() -> list[int]:
    """Return the ids of this process's children; none where the system does not list them."""
    with suppress(OSError):
        return [int(name) for name in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    return []


def _spent_cpu() -> float:
    """Return the processor time of all children so far, ended and running."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = 0
    for process in _child_processes():
        with suppress(OSError):
            # After the program name, which may contain spaces, the 12th and 13th fields are user and system time.
            parts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += int(parts[11]) + int(parts[12])
    return ended.ru_utime + ended.ru_stime + ticks / _TICKS


def remaining_processes() -> list[int]:
    """Return the children that still exist after `END_WAIT_S`."""
    deadline = time.monotonic() + END_WAIT_S
    for process in _child_processes():
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(process)
            select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
            os.close(handle)
        with suppress(ChildProcessError):
            os.waitpid(process, os.WNOHANG)
    return _child_processes()


def table_rows(counts: ReplayCounts, left: Sequence[int], /) -> Iterator[tuple[str, str]]:
    """Yield the printed rows of a replay."""
    unrelated, recalls = counts.shown["unrelated"], counts.runs["recall"]
    related = counts.prompts - counts.unrelated - counts.statements
    yield "leaks across repositories", f"{len(counts.leaks)}"
    yield "program words in blocks", f"{len(counts.program_words)}"
    yield "prompts stored", _share(counts.prompts - len(counts.unstored), counts.prompts)
    yield "unrelated prompts with a block", _share(unrelated, counts.unrelated)
    yield "the same without the gate", _share(counts.ungated_alarms, counts.unrelated)
    yield "statements with a block", _share(counts.shown["statement"], counts.statements)
    yield "prompts that need evidence, with a block", _share(counts.shown["needing"], related)
    yield "evidence shown, against the ungated block", _against(counts.gated, counts.ungated, counts.needed)
    new_evidence = _against(counts.new_gated, counts.new_ungated, counts.new_needed)
    yield "the same, without what was shown before", new_evidence
    yield "evidence that only the ungated block shows", f"{counts.lost}"
    yield "characters per prompt, mean", f"{counts.chars / counts.prompts:.0f}"
    yield "characters at the start, mean", f"{_mean(len(run.context) for run in counts.runs['start']):.0f}"
    for event, runs in counts.runs.items():
        if runs:
            name = "prompt" if event == "recall" else event
            middle_s = statistics.median(run.cpu_s for run in runs)
            yield f"CPU per {name}, mean and median", f"{_mean(run.cpu_s for run in runs):.2f} s, {middle_s:.2f} s"
    yield "time per prompt, median and longest", f"{_middle(recalls):.2f} s, {max(run.wall_s for run in recalls):.2f} s"
    yield (
        f"answers after {LATE_S:g} s or later",
        f"{sum(run.wall_s >= LATE_S for runs in counts.runs.values() for run in runs)}",
    )
    yield "failed hooks", f"{len(counts.problems)}"
    yield "processes beside a hook, at most", f"{counts.processes}"
    yield "processes left", f"{len(left)}"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}, {100 * part / whole:.1f} %" if whole else "0 of 0"


def _against(part: int, other: int, whole: int) -> str:
    return f"{part} against {other} of {whole}, {100 * part / other:.1f} %" if other else f"{part} against 0 of {whole}"


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean([*values] or [0.0])


def _middle(runs: Sequence[HookRun]) -> float:
    return statistics.median(run.wall_s for run in runs)


def _end_process(_number: int, _frame: object) -> None:
    sys.exit(1)


def main() -> int:
    """Replay the sessions, print the counts, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="replay a few prompts of each repository")
    parser.add_argument("--as", dest="host", choices=HOSTS, help="replay all sessions as those of one host")
    parser.add_argument("--show", action="store_true", help="show blocks at unrelated prompts, and missing evidence")
    options = parser.parse_args()
    script = read_script()
    if options.short:
        script = script.shortened()
    if options.host is not None:
        script = replace(script, sessions=tuple(replace(one, host=options.host) for one in script.sessions))
    adopt_processes()
    # If it is terminated, it still removes the store, so that no resident process remains.
    signal.signal(signal.SIGTERM, _end_process)
    with tempfile.TemporaryDirectory(prefix="assistants-") as folder:
        workspace = Workspace(Path(folder), script.repositories)
        counts = asyncio.run(SessionReplay(workspace, script).run())
        # A resident process ends when its store is gone.
        shutil.rmtree(workspace.store.parent)
        left = remaining_processes()
    print(describe_script(script))
    for name, value in table_rows(counts, left):
        print(f"{name:<48}{value}")
    failures = {"leak": counts.leaks, "program word": counts.program_words, "failed hook": counts.problems}
    details = (
        {"not stored": counts.unstored, "missing evidence": counts.missed, "unrelated": counts.false_alarms}
        if options.show
        else {}
    )
    for name, texts in (failures | details).items():
        for text, number in Counter(texts).items():
            print(f"{name}{f' ({number} times)' if number > 1 else ''}: {text}")
    # A hook that fails on a slow machine is reported, but does not count as its fault.
    return int(bool(counts.leaks or counts.program_words or left or not counts.gated))


if __name__ == "__main__":
    sys.exit(main())
