"""Server keys are created and revoked on the machine; `serve` explains why it does not start."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.cli.conftest import CommandLine

import elytron as sdk
from elytron_core.ids import SpaceId
from elytron_core.ports.store import JournalAction


def test_a_key_is_shown_once_listed_rotated_and_revoked(elytron: CommandLine) -> None:
    made = elytron.json("access", "add", "--kind", "user", "--label", "laptop", "--space", "ada")
    assert made["key"].startswith("ely_user_")
    listed = elytron("access", "list").stdout
    assert made["key"] not in listed
    assert json.loads(listed)["items"] == [made["access"]]
    turned = elytron.json("access", "rotate", made["access"]["id"])
    assert turned["key"] != made["key"]
    assert elytron.json("access", "revoke", made["access"]["id"])["revoked_at"]
    assert elytron.error("access", "rotate", made["access"]["id"], expect=3)["key"] == "not_found"


def test_a_quota_is_set_with_the_key_shown_and_changed_later(elytron: CommandLine) -> None:
    asked = ("--kind", "user", "--label", "laptop", "--space", "ada", "--calls-per-day", "50")
    made = elytron.json("access", "add", *asked)
    assert made["access"]["quota"] == {"calls_per_day": 50}
    changed = elytron.json("access", "quota", made["access"]["id"], "--bytes-per-day", "1000")
    assert changed["quota"] == {"bytes_per_day": 1000}
    assert "bytes per day: 1000" in elytron("access", "list", "--no-json").stdout
    assert "quota" not in elytron.json("access", "quota", made["access"]["id"])


def test_people_see_keys_one_per_line(elytron: CommandLine) -> None:
    elytron("add", "The spare key is with Noor.")
    assert elytron("access", "list", "--no-json").stdout.strip() == "no keys"
    shown = elytron("access", "add", "--kind", "operator", "--label", "ops", "--no-json").stdout
    assert "ely_operator_" in shown
    assert "(every space)" in elytron("access", "list", "--no-json").stdout
    key_id = elytron.json("access", "list")["items"][0]["id"]
    assert "revoked" in elytron("access", "revoke", key_id, "--no-json").stdout


def test_keys_beyond_the_first_page_are_listed(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        elytron("access", "add", "--kind", "user", "--label", f"key {number}")
    monkeypatch.setattr("elytron_cli.commands.servers.access.PAGE", 2)
    assert len(elytron.json("access", "list")["items"]) == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("access", "revoke", "zz"), 2), (("access", "add", "--kind", "device", "--label", ""), 2)],
)
def test_invalid_keys_are_reported(elytron: CommandLine, arguments: tuple[str, ...], code: int) -> None:
    assert elytron.error(*arguments, expect=code)["key"] == "invalid_input"


@pytest.mark.parametrize("options", [(), ("--development",)])
def test_a_server_open_to_everyone_is_not_started(elytron: CommandLine, options: tuple[str, ...]) -> None:
    told = elytron.error("serve", "--host", "0.0.0.0", "--port", "0", *options, expect=5)
    assert told["key"] == "permission_refused"


def _limits(process: int) -> list[str]:
    """Return what the system lets a process have."""
    return Path(f"/proc/{process}/limits").read_text().splitlines()


async def _served(folder: Path, *options: str, meanwhile: Callable[[str], Awaitable[None]]) -> tuple[str, int, bytes]:
    """Return what a server prints when it listens, its exit code after SIGTERM, and its log."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from elytron_cli.main import run_command_line; run_command_line()",
        "serve", "--port", "0", *options,
        cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "ELYTRON_STORE": str(folder / "m.db")},
    )  # fmt: skip
    assert process.stdout is not None
    told = ""
    try:
        async with asyncio.timeout(100):
            while not (told.rstrip().endswith("}") or "stop: " in told):
                line = (await process.stdout.readline()).decode()
                assert line, "it ended before it listened"
                told += line
            if sys.platform == "linux":
                (core,) = [line for line in _limits(process.pid) if line.startswith("Max core file size")]
                assert core.split()[4] == "0", "a crash would write keys and content to a disk"
            await meanwhile(told)
            process.send_signal(signal.SIGTERM)
            _, log = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return told, process.returncode or 0, log


async def _project(address: str, **headers: str) -> None:
    async with httpx.AsyncClient(base_url=address, headers=headers, trust_env=False, timeout=100) as client:
        for path, body in (("add", {"text": "Ada likes tea."}), ("context", {"query": "tea"})):
            assert (await client.post(f"/v1/{path}", json=body)).status_code == 200


async def _projections(folder: Path) -> int:
    """Return the number of projections in the journal of the default space."""
    async with sdk.open(folder / "m.db", space="default") as memory:
        entries = await memory.context.store.journal(SpaceId("default"), after=0, limit=100)
    assert entries
    return [entry.action for entry in entries].count(JournalAction.PROJECTION)


@pytest.fixture
def key(elytron: CommandLine) -> str:
    """Create a key of the default space."""
    return elytron.json("access", "add", "--kind", "user", "--label", "laptop")["key"]


@pytest.mark.anyio
@pytest.mark.usefixtures("whole_starts")
async def test_a_server_prints_its_address_and_stops_on_request(elytron: CommandLine, key: str) -> None:
    async def project(told: str) -> None:
        await _project(json.loads(told)["address"], Authorization=f"Bearer {key}")

    told, code, log = await _served(elytron.folder, "--operator-key", meanwhile=project)
    report = json.loads(told)
    assert code == 0
    assert report["address"].startswith("http://127.0.0.1:")
    assert report["operator_key"].startswith("ely_operator_")
    assert report["operator_key"].encode() not in log
    for line in log.splitlines():
        json.loads(line)
    assert await _projections(elytron.folder) == 0


@pytest.mark.anyio
async def test_the_first_key_is_written_to_an_owner_only_file_and_not_printed(elytron: CommandLine) -> None:
    path = elytron.folder / "operator.key"
    seen: list[str] = []

    async def meanwhile(_: str) -> None:
        seen.append(path.read_text())

    for _ in range(2):
        told, code, log = await _served(elytron.folder, "--operator-key-file", str(path), meanwhile=meanwhile)
        assert code == 0
        assert "ely_operator_" not in told
        assert b"ely_operator_" not in log
    assert seen[0].startswith("ely_operator_")
    assert seen == [path.read_text()] * 2
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.anyio
async def test_people_get_instructions_and_events_go_where_requested(
    tmp_path: Path,
) -> None:
    async def project(told: str) -> None:
        await _project(told.partition("listening on ")[2].split()[0])

    options = ("--development", "--no-json", "--log", "console", "--projection-events")
    told, code, _ = await _served(tmp_path, *options, meanwhile=project)
    assert code == 0
    assert "/docs" in told
    assert "development" in told
    assert await _projections(tmp_path) == 1


@pytest.mark.anyio
async def test_an_operator_sees_store_figures_and_stops_the_server_by_its_store(
    elytron: CommandLine,
) -> None:
    await asyncio.to_thread(elytron, "add", "Ada likes tea.")
    await asyncio.to_thread(elytron, "backup", "copy.db")

    async def ask(told: str) -> None:
        address = json.loads(told)["address"]
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=100) as client:
            refused = await client.post("/v1/get", json={"id": "nothing"})
            assert refused.headers["elytron-error"] == refused.json()["code"] == "not_found"
            figures = (await client.get("/metrics")).text
        assert 'elytron_errors_total{key="not_found"} 1.0' in figures
        assert 'elytron_jobs{state="pending"} 0.0' in figures
        size, at = (
            next(float(line.split()[1]) for line in figures.splitlines() if line.startswith(f"{name} "))
            for name in ("elytron_store_bytes", "elytron_backup_timestamp_seconds")
        )
        assert size >= (elytron.folder / "m.db").stat().st_size
        assert at > 1_700_000_000
        stopped = await asyncio.to_thread(elytron.json, "server", "stop", "--reason", "update")
        assert stopped["reason"] == "update"

    _, code, log = await _served(elytron.folder, "--development", meanwhile=ask)
    assert code in {0, -signal.SIGTERM}, log
    assert not (elytron.folder / "m.db.server").exists()


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Let files be created with the permissions programs request, here and in child processes."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.anyio
@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize("sealed", [False, True])
async def test_files_in_and_next_to_a_store_are_readable_only_by_their_owner(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch, sealed: bool
) -> None:
    if sealed:
        await asyncio.to_thread(elytron, "keys", "create", "keys.json")
        monkeypatch.setenv("ELYTRON_KEY_FILE", "keys.json")
    for command in (("add", "Ada likes tea."), ("backup", "copy"), ("export", "a.zip")):
        await asyncio.to_thread(elytron, *command)
    modes: dict[str, int] = {}

    async def walk(_told: str) -> None:
        modes.update({str(path): path.stat().st_mode & 0o777 for path in elytron.folder.rglob("*") if path.is_file()})

    await _served(elytron.folder, "--development", meanwhile=walk)
    names = {Path(path).name for path in modes}
    assert {"m.db.server", "a.zip"} <= names
    assert any(name.endswith(".backup-time") for name in names)
    assert {path: oct(mode) for path, mode in modes.items() if mode != 0o600} == {}


def test_a_file_that_others_can_write_names_no_server(elytron: CommandLine) -> None:
    elytron("add", "The ferry leaves at six.")
    address = elytron.folder / "m.db.server"
    address.write_text("http://127.0.0.1:1")
    address.chmod(0o646)
    assert "no server of this store" in elytron.error("server", "stop", expect=2)["reason"]
    address.unlink()
    (elytron.folder / "elsewhere").write_text("http://127.0.0.1:1")
    address.symlink_to(elytron.folder / "elsewhere")
    assert "no server of this store" in elytron.error("server", "stop", expect=2)["reason"]


def test_a_stop_affects_no_server_of_another_store(elytron: CommandLine) -> None:
    elytron("add", "The ferry leaves at six.")
    assert "no server of this store" in elytron.error("server", "stop", expect=2)["reason"]
