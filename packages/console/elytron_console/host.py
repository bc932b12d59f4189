"""The host of a console: the program that serves it, what it allows to be shown and changed, and its smoke checks."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from elytron.context import RuntimeModels
from elytron_adapter.surface import Family
from elytron_core.clock import Instant
from elytron_core.errors import NotFound, Overloaded, StoreUnavailable
from elytron_core.model import Request, Value
from elytron_core.scope import Name

SMOKE_OUTPUT_BYTES: Final = 8 * 1024
"""Bytes of each output of a smoke check that are shown; the end is kept, because failures come last."""
SMOKE_DEADLINE_S: Final = 30.0
SMOKE_RUNS: Final = 2
"""Smoke checks that run at once."""


class StorageReport(Value):
    """Size of the store on this machine, and the room on its device. Unknown values are omitted."""

    store_bytes: int | None = None
    free_bytes: int | None = None
    device_bytes: int | None = None
    backed_up_at: Instant | None = None


class ModelSetting(Value):
    """A model by its setting: in use now, and from the next start on."""

    in_use: str | None = None
    """The name that the model gives itself; None if the server runs without one."""
    setting: str | None = None
    """The setting that the next start reads; passwords are masked."""
    origin: str | None = None
    """Source of the setting: an option, a variable of the environment, or the file."""
    is_changeable: bool = False
    """True if the file decides, so that changing it takes effect at the next start."""


class ModelConfig(Value):
    """The models of a server."""

    embedder: ModelSetting
    language_model: ModelSetting
    file: str | None = None
    """The file that a change is written to."""
    note: str = ""


def models_in_use(models: RuntimeModels, /) -> ModelConfig:
    """Return the models of a runtime, without any setting."""
    embedder = models.embedder.info.model if models.embedder is not None else None
    language = models.language.name if models.language is not None else None
    return ModelConfig(embedder=ModelSetting(in_use=embedder), language_model=ModelSetting(in_use=language))


class ModelConfigChange(Request):
    """Update the model settings in the server's file. An empty text removes a setting; None leaves it."""

    embedder: str | None = None
    language_model: str | None = None


class ModelSettings(Protocol):
    """The model settings of the serving program."""

    def read(self) -> ModelConfig:
        """Return the settings that the next start will read."""
        ...

    def change(self, change: ModelConfigChange, /) -> None:
        """Write the settings. Raises InvalidInput for an invalid model, PermissionRefused if they cannot be set."""
        ...


@dataclass(frozen=True, slots=True)
class SmokeCheck:
    """A fixed command of the command line that shows whether a part works. Nothing of a request gets into it."""

    id: Name
    title: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsoleHost:
    """Parts of the serving program that its console may show. If one is missing, the console says so."""

    store: str = ""
    """The store in readable form, without passwords."""
    protocols: tuple[str, ...] = ()
    storage: Callable[[], StorageReport] | None = None
    models: ModelSettings | None = None
    command: tuple[str, ...] = ()
    """Command that starts this program; without it there are no smoke checks."""
    checks: tuple[SmokeCheck, ...] = ()
    rule_commands: tuple[str, ...] = ()
    """Commands that export rules for agents, for people to copy."""
    agents: Family | None = None
    """The routes of agents, if the program serves them; every call returns the same surfaces."""


_READ_BYTES = 65_536


class SmokeCheckReport(Value):
    """Outcome of a smoke check. Of a longer output, its end is shown."""

    id: str
    exit_code: int | None = None
    """None if it was ended at its deadline."""
    stdout: str = ""
    stderr: str = ""
    clipped: bool = False
    duration_ms: int
    timed_out: bool = False


class SmokeRunner:
    """Runs the checks of a host, a few at once."""

    def __init__(self, host: ConsoleHost, /, *, deadline_s: float = SMOKE_DEADLINE_S) -> None:
        self._command = host.command
        self._checks = {check.id: check for check in host.checks} if host.command else {}
        self._deadline_s = deadline_s
        self._running = 0

    @property
    def checks(self) -> Mapping[str, SmokeCheck]:
        """Return the available checks, by id."""
        return self._checks

    async def run(self, check_id: str, /) -> SmokeCheckReport:
        """Run the check of this id. Raises NotFound for another, Overloaded if too many are running."""
        check = self._checks.get(check_id)
        if check is None:
            raise NotFound(what="smoke check", name=check_id)
        if self._running >= SMOKE_RUNS:
            raise Overloaded
        self._running += 1
        try:
            return await self._run(check)
        finally:
            self._running -= 1

    async def _run(self, check: SmokeCheck) -> SmokeCheckReport:
        began = time.monotonic()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *check.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # In a separate session, so that it can be ended with its child processes.
                start_new_session=True,
                env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
            )
        except OSError as error:
            raise StoreUnavailable(f"the check could not be started: {error.strerror}") from error
        assert process.stdout is not None
        assert process.stderr is not None
        # Both concurrently, since a check blocks on a full output.
        reading = asyncio.gather(_last_bytes(process.stdout), _last_bytes(process.stderr))
        timed_out = False
        try:
            async with asyncio.timeout(self._deadline_s):
                # Its output until the deadline is shown, so reading continues after it.
                await asyncio.shield(reading)
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            if process.returncode is None:
                _kill_group(process)
                await process.wait()
        (out, out_clipped), (err, err_clipped) = await reading
        return SmokeCheckReport(
            id=check.id,
            exit_code=None if timed_out else process.returncode,
            stdout=out,
            stderr=err,
            clipped=out_clipped or err_clipped,
            duration_ms=round((time.monotonic() - began) * 1_000),
            timed_out=timed_out,
        )


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill the check with its child processes, which may hold its outputs open."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


async def _last_bytes(stream: asyncio.StreamReader) -> tuple[str, bool]:
    """Return the end of a stream's output, and whether more came before."""
    tail, is_clipped = b"", False
    while piece := await stream.read(_READ_BYTES):
        tail += piece
        is_clipped = is_clipped or len(tail) > SMOKE_OUTPUT_BYTES
        tail = tail[-SMOKE_OUTPUT_BYTES:]
    return tail.decode("utf-8", "replace"), is_clipped
