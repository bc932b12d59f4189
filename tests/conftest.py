"""Fixtures that every test may use."""

import gc
import inspect
import os
import socket
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from shutil import disk_usage
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests import command_processes
from tests.store.postgres_server import ABSENT, PostgresServer, shared_server

for name in ("http_proxy", "https_proxy", "all_proxy"):
    # Proxy settings of the machine are irrelevant: all test servers are local.
    os.environ.pop(name, None)
    os.environ.pop(name.upper(), None)
# For the same reason no client reads the CA certificates, which takes 30 ms each time.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent / "data")

# Every core has a process with tests: a second thread of linear algebra would only wait for it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The tests start some hundred processes, which read compiled modules in half the time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Temporary files are in memory if there is room: no test is about the disk's speed.
MEMORY_FOLDER = Path("/dev/shm")
ROOM = 2 * 2**30
if "TMPDIR" not in os.environ and os.access(MEMORY_FOLDER, os.W_OK) and disk_usage(MEMORY_FOLDER).free > ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY_FOLDER)

command_processes.copy_processes()

if coverage := getattr(sys.modules.get("slipcover.pytest_plugin"), "_slipcover_instance", None):
    # Whenever a probe was passed this often, all functions are searched for lines covered by now: with
    # the 50 of a process without others, that takes a third of the tests' time.
    coverage.d_miss_threshold = 200_000

settings.register_profile(
    "ci", max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", max_examples=2_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("ELYTRON_HYPOTHESIS", "ci"))


WORKERS_MAX = 8
"""More processes would wait for each other's disk longer than they save."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Distribute test folders among the machine's cores; a run of one file or test stays in one process.

    Command-line options take precedence (`-n 0`: one process). Without pytest-xdist nothing is distributed.
    """
    named = config.option
    if hasattr(config, "workerinput"):
        return  # one of the processes already: it would distribute its part again, without end
    if getattr(named, "numprocesses", 0) is None and all(Path(part).is_dir() for part in config.args):
        # One more than there are cores: a third of the tests' time is spent waiting for disks and processes.
        named.numprocesses = min((os.cpu_count() or 1) + 1, named.maxprocesses or WORKERS_MAX)
        # Halves in order, so that a module's shared fixtures are created once, until one runs out and takes others'.
        named.dist = "worksteal" if named.dist == "no" else named.dist


def pytest_unconfigure() -> None:
    """End the processes that this run's processes were copied from."""
    command_processes.COPIED.close()


MEASURING = ("tracemalloc", "process_time")
"""Names that modules with such tests import."""
MEASURES = ("tracemalloc.", "process_time(")
"""Tests that call these measure memory and CPU time, which a coverage measurement would distort."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark measuring tests, so that the coverage run leaves them to one without."""
    for item in items:
        if not isinstance(item, pytest.Function) or not any(hasattr(item.module, name) for name in MEASURING):
            continue
        test: Any = item.obj
        source = inspect.getsource(inspect.unwrap(test))
        if any(name in source for name in MEASURES):
            item.add_marker("measuring")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Skip garbage collection among ten thousand tests and their modules, which stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def whole_starts() -> Iterator[None]:
    """Start the processes of a test as users do, instead of as copies of a preloaded command line."""
    with command_processes.whole_starts():
        yield


@pytest.fixture(autouse=True)
def no_foreign_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail any test that connects beyond this machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        host = str(address[0]) if self.family in {socket.AF_INET, socket.AF_INET6} else "local"
        if host not in {"127.0.0.1", "::1", "localhost", "local"}:
            raise AssertionError(f"a test opened a socket to {host!r}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Provide the Postgres server of this run, started by the first test that needs it."""
    with shared_server() as server:
        if server is None:
            assert not os.environ.get("CI"), ABSENT
            pytest.skip(ABSENT)
        yield server


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> str:
    """Return the URL of this module's own database, without tables."""
    return postgres.make_database()
