"""Another server version: the suite, the documented commands on many nodes, copies by the server's tools."""

import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest
from click.testing import CliRunner
from tests.gates.test_docs import blocks
from tests.gates.tree import ROOT
from tests.store import test_postgres
from tests.store.handles import Handles, Opener
from tests.store.postgres_rig import empty_tables, open_tables
from tests.store.postgres_server import (
    ABSENT_OLDER,
    PostgresServer,
    free_port,
    older_binaries,
    start_server,
    stop_server,
)
from tests.store.served_nodes import RUN

from elytron_cli.app import elytron_group
from elytron_conformance.commits import CommitClaims
from elytron_conformance.erasure import ErasureClaims
from elytron_conformance.idempotency import IdempotencyClaims
from elytron_core.errors import StoreReadOnly, StoreRefused

pytestmark = pytest.mark.anyio
PAGE = ROOT / "docs" / "how-to" / "run-many-nodes.md"
TOOLS = ("pg_dump", "pg_restore", "pg_basebackup", "createdb")
UNTIL_S = 150.0


@pytest.fixture(scope="module")
def programs() -> Path:
    found = older_binaries()
    if found is None:
        assert not os.environ.get("CI"), ABSENT_OLDER
        pytest.skip(ABSENT_OLDER)
    return found


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Return a folder that another user can read, as the server is one's."""
    with tempfile.TemporaryDirectory(prefix="elytron-older-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def postgres(folder: Path, programs: Path) -> Iterator[PostgresServer]:
    """Run a server of the other version, which can be copied while it runs."""
    server, port = start_server(folder, programs, options=("wal_level=replica", "max_wal_senders=4"))
    yield PostgresServer(f"postgresql://postgres@127.0.0.1:{port}/postgres", folder / "data")
    stop_server(server)


@pytest.fixture
def emptied(database: str) -> str:
    empty_tables(database)
    return database


class TestOlderStore(Handles, CommitClaims, IdempotencyClaims, ErasureClaims):
    """Claims that depend on the function and on table rewriting, which are the most likely to differ by version."""

    test_no_byte_of_what_was_erased_is_left = test_postgres.TestPostgresStore.test_no_byte_of_what_was_erased_is_left

    @pytest.fixture
    def opener(self, emptied: str) -> Opener:
        return partial(open_tables, emptied)

    @pytest.fixture
    def tmp_path(self, postgres: PostgresServer, emptied: str) -> Path:
        """Return the folder with the server's tables of the database."""
        return postgres.tables_of(emptied)


class PageReader:
    """Runs the documented commands, in its own folder, with local addresses."""

    def __init__(self, folder: Path, programs: Path, addresses: dict[str, str], stack: ExitStack) -> None:
        self._folder = folder
        self._programs = programs
        self._addresses = addresses
        self._stack = stack
        self._ports: dict[str, int] = {}
        self._starting: dict[int, subprocess.Popen[bytes]] = {}
        self.environment: dict[str, str] = {}
        self.said: list[tuple[str, str]] = []
        """The commands, and their output."""

    def read(self, command: str, /) -> None:
        """Run one line."""
        for shown, here in self._addresses.items():
            command = command.replace(shown, here)
        for name, value in self.environment.items():
            command = command.replace(f"${name}", value)
        command = re.sub(r"(?<=[ :])80\d\d\b", lambda found: f"{self._port(found[0])}", command)
        words = shlex.split(command.removesuffix(" &"))
        match words[0]:
            case "pip":
                text = ""  # it is already installed
            case "export":
                self.environment |= dict(word.split("=", 1) for word in words[1:])
                text = ""
            case "elytron" if words[1] == "serve":
                text = self._serve(words[1:])
            case "elytron":
                text = self._run(words[1:])
            case "curl":
                self.wait_until_served()
                text = self._post(words[1:])
            case tool:
                assert tool in TOOLS, f"the test does not know {tool}"
                done = subprocess.run(
                    [self._programs / tool, *words[1:]], cwd=self._folder, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, done.stderr
                text = done.stdout
        self.said.append((command, text))

    def _port(self, shown: str) -> int:
        if shown not in self._ports:
            self._ports[shown] = free_port()
        return self._ports[shown]

    def _run(self, words: list[str]) -> str:
        done = CliRunner().invoke(elytron_group, words, env=self.environment)
        assert done.exit_code == 0, done.output
        return done.stdout

    def _serve(self, words: list[str]) -> str:
        port = int(words[words.index("--port") + 1])
        known = {name: value for name, value in os.environ.items() if not name.startswith("ELYTRON_")}
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, *words, "--json"],
            cwd=self._folder,
            env=known | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._stack.callback(process.communicate, timeout=UNTIL_S)
        self._stack.callback(process.terminate)
        self._starting[port] = process
        return ""

    def wait_until_served(self) -> None:
        """Return once every started server answers."""
        until = time.monotonic() + UNTIL_S
        while self._starting:
            port, process = next(iter(self._starting.items()))
            if _is_ready(port):
                del self._starting[port]
                continue
            assert process.poll() is None, process.stdout and process.stdout.read()
            assert time.monotonic() < until
            time.sleep(0.05)

    def _post(self, words: list[str]) -> str:
        address = next(word for word in words if word.startswith("localhost"))
        headers = dict(words[at + 1].split(": ", 1) for at, word in enumerate(words) if word == "-H")
        body = words[words.index("-d") + 1]
        answer = httpx.post(f"http://{address}", headers=headers, content=body, trust_env=False, timeout=UNTIL_S)
        assert answer.status_code == 200, answer.text
        return answer.text


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def addresses(postgres: PostgresServer) -> dict[str, str]:
    """Create what the page assumes, a user and a database; return its addresses with the local ones."""
    name = postgres.make_database().rpartition("/")[2]
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE memory LOGIN")
        connection.execute(f"ALTER DATABASE {name} OWNER TO memory".encode())
    server = postgres.url.rpartition("@")[2].removesuffix("/postgres")
    return {"db.example/memory": f"{server}/{name}", "db.example": server}


@pytest.mark.timeout(280)
def test_each_documented_command_works_as_described(
    addresses: dict[str, str], programs: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        line[2:]
        for block in blocks(PAGE)
        if block.info == "console"
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.startswith("$ ")
    ]
    with ExitStack() as stack:
        reader = PageReader(tmp_path, programs, addresses, stack)
        for line in lines:
            reader.read(line)
            if line.startswith("elytron access add"):
                reader.environment["KEY"] = json.loads(reader.said[-1][1])["key"]
        reader.wait_until_served()
        answers = [text for command, text in reader.said if command.startswith("curl")]
        served = [command for command, _ in reader.said if " serve " in command]
    assert len(answers) >= 2
    assert all("The ferry leaves at six." in answer for answer in answers)
    assert len(served) >= 4
    shown = [json.loads(text) for command, text in reader.said if command.startswith("elytron inspect")]
    assert {each["state_fingerprint"] for each in shown[1:]} == {shown[0]["state_fingerprint"]}
    assert len(shown) >= 3
    (doctor,) = [json.loads(text) for command, text in reader.said if command.startswith("elytron doctor")]
    assert (doctor["store"]["state"], doctor["store"]["capabilities"]["sealed"]) == ("sound", True)
    _require_whole_copy(tmp_path / "copy", folder, programs, reader.environment)


def _require_whole_copy(copy: Path, folder: Path, programs: Path, environment: dict[str, str]) -> None:
    """Require that the server's copy contains the store, and is refused where it cannot hold one."""
    data = folder / "again" / "data"
    data.parent.mkdir(mode=0o755)
    shutil.move(copy, data)
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        for path in (data, *data.rglob("*")):
            os.chown(path, user.pw_uid, user.pw_gid)
    before = CliRunner().invoke(elytron_group, ["inspect", "--fingerprints"], env=environment)
    found: list[str] = []
    for options, is_replica in (((), False), (("fsync=off",), False), ((), True)):
        if is_replica:
            (data / "standby.signal").touch()
            if os.geteuid() == 0:
                shutil.chown(data / "standby.signal", "nobody")
        server, port = start_server(data.parent, programs, options=("wal_level=replica", "max_wal_senders=4", *options))
        try:
            copied = re.sub(r":\d+/", f":{port}/", environment["ELYTRON_STORE"])
            after = CliRunner().invoke(elytron_group, ["inspect", "--fingerprints", "--store", copied], env=environment)
            found.append(after.stdout or json.loads(after.stderr)["error"]["key"])
        finally:
            stop_server(server)
    assert found[1:] == [StoreRefused.key, StoreReadOnly.key]
    assert json.loads(found[0])["state_fingerprint"] == json.loads(before.stdout)["state_fingerprint"]
