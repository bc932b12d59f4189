"""Smoke checks: programs that a console runs, with limits on their time and output."""

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from elytron_console.console_host import ConsoleHost, SmokeCheck
from elytron_core.errors import NotFound, Overloaded, StoreUnavailable
from elytron_core.model import Value

SMOKE_OUTPUT_BYTES: Final = 8 * 1024
"""Bytes of each output of a smoke check that are shown; the end is kept, because failures come last."""


SMOKE_DEADLINE_S: Final = 30.0


SMOKE_RUNS: Final = 2
"""Smoke checks that run at once."""


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
        smoke_check = self._checks.get(check_id)
        if smoke_check is None:
            raise NotFound(what="smoke check", name=check_id)
        if self._running >= SMOKE_RUNS:
            raise Overloaded
        self._running += 1
        try:
            return await self._run(smoke_check)
        finally:
            self._running -= 1

    async def _run(self, check: SmokeCheck) -> SmokeCheckReport:
        started_s = time.monotonic()
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
        output_reading = asyncio.gather(_last_bytes(process.stdout), _last_bytes(process.stderr))
        timed_out = False
        try:
            async with asyncio.timeout(self._deadline_s):
                # Its output until the deadline is shown, so reading continues after it.
                await asyncio.shield(output_reading)
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            if process.returncode is None:
                _kill_group(process)
                await process.wait()
        (output, is_output_clipped), (error_output, is_error_clipped) = await output_reading
        return SmokeCheckReport(
            id=check.id,
            exit_code=None if timed_out else process.returncode,
            stdout=output,
            stderr=error_output,
            clipped=is_output_clipped or is_error_clipped,
            duration_ms=round((time.monotonic() - started_s) * 1_000),
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
    last_bytes, is_clipped = b"", False
    while piece := await stream.read(_READ_BYTES):
        last_bytes += piece
        is_clipped = is_clipped or len(last_bytes) > SMOKE_OUTPUT_BYTES
        last_bytes = last_bytes[-SMOKE_OUTPUT_BYTES:]
    return last_bytes.decode("utf-8", "replace"), is_clipped
