"""The command line as a console's host: settings of models in its file, checks with a deadline, storage."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

import elytron
from elytron import MemoryRuntime
from elytron_cli.app import elytron_group
from elytron_cli.config import RunSettings, resolve_settings
from elytron_cli.server.console_host import FileModelSettings, console_host
from elytron_console import ConsoleHost, ModelConfigChange, SmokeCheck
from elytron_console.smoke_checks import SmokeRunner
from elytron_core.errors import InvalidInput, NotFound, PermissionRefused

pytestmark = pytest.mark.anyio


@pytest.fixture
async def runtime() -> AsyncIterator[MemoryRuntime]:
    async with elytron.open("memory:", space="ada") as memory:
        yield memory


def settings_of(folder: Path, **environment: str) -> RunSettings:
    return resolve_settings({"store": str(folder / "m.db")}, environment=environment, folder=folder)


class TestModels:
    async def test_a_change_is_written_and_other_lines_are_preserved(
        self, runtime: MemoryRuntime, tmp_path: Path
    ) -> None:
        file = tmp_path / "elytron.toml"
        file.write_text('# ours\nspace = "ada"\nembedder = "minilm"\n')
        models = FileModelSettings(settings_of(tmp_path), runtime, file)
        models.change(ModelConfigChange(embedder="", language_model=" ollama:llama3.2 "))
        assert file.read_text() == '# ours\nspace = "ada"\nlanguage_model = "ollama:llama3.2"\n'
        shown = models.read().language_model
        assert (shown.in_use, shown.setting, shown.origin, shown.is_changeable) == (
            None,
            "ollama:llama3.2",
            "elytron.toml",
            True,
        )

    @pytest.mark.parametrize(
        "change",
        [
            {"language_model": "nonsense"},
            {"language_model": 'openai:x"\nstore = "y'},
            {"embedder": "no-model-of-this-name"},
            {"embedder": "http://127.0.0.1:1/v1"},
        ],
    )
    async def test_an_invalid_model_is_rejected_and_nothing_is_written(
        self, runtime: MemoryRuntime, tmp_path: Path, change: dict[str, str]
    ) -> None:
        file = tmp_path / "elytron.toml"
        with pytest.raises(InvalidInput):
            FileModelSettings(settings_of(tmp_path), runtime, file).change(ModelConfigChange(**change))
        assert not file.exists()

    async def test_a_variable_outweighs_the_file(self, runtime: MemoryRuntime, tmp_path: Path) -> None:
        settings = settings_of(tmp_path, ELYTRON_LANGUAGE_MODEL="ollama:llama3.2")
        models = FileModelSettings(settings, runtime, tmp_path / "elytron.toml")
        assert models.read().language_model.is_changeable is False
        with pytest.raises(PermissionRefused):
            models.change(ModelConfigChange(language_model="ollama:other"))


class TestChecks:
    async def test_a_slow_check_is_killed_with_its_children(self) -> None:
        code = "import subprocess, sys; print('begun', flush=True); subprocess.run([sys.executable, '-c', 'input()'])"
        # Its child waits for input that never comes, and keeps the outputs open.
        slow = SmokeCheck(
            "slow", "Slow", ("-c", code.replace("'input()'", "'import select; select.select([], [], [])'"))
        )
        runner = SmokeRunner(ConsoleHost(command=(sys.executable,), checks=(slow,)), deadline_s=1.0)
        told = await runner.run("slow")
        assert (told.timed_out, told.exit_code) == (True, None)

    async def test_without_a_configured_command_no_checks_are_offered(self) -> None:
        runner = SmokeRunner(ConsoleHost(checks=(SmokeCheck("one", "One", ()),)))
        with pytest.raises(NotFound):
            await runner.run("one")

    async def test_a_file_store_is_checked(self, runtime: MemoryRuntime, tmp_path: Path) -> None:
        on_disk = console_host(settings_of(tmp_path), runtime)
        in_memory = console_host(resolve_settings({"store": "memory:"}, environment={}, folder=tmp_path), runtime)
        told = [[check.id for check in host.checks] for host in (on_disk, in_memory)]
        assert told == [
            ["version", "store", "model-api", "rules", "capabilities"],
            ["version", "model-api", "rules", "capabilities"],
        ]

    async def test_a_check_runs_the_command_line(self, runtime: MemoryRuntime, tmp_path: Path) -> None:
        told = await SmokeRunner(console_host(settings_of(tmp_path), runtime)).run("version")
        assert (told.exit_code, told.stdout.startswith("{") or told.stdout.startswith("elytron")) == (0, True)


async def test_storage_figures_are_those_of_the_stores_device(runtime: MemoryRuntime, tmp_path: Path) -> None:
    (tmp_path / "m.db").write_bytes(b"x" * 10)
    host = console_host(settings_of(tmp_path), runtime)
    assert host.storage is not None
    found = host.storage()
    assert (found.store_bytes, found.backed_up_at) == (10, None)
    assert found.free_bytes is not None


def test_a_remote_servers_console_is_available_only_on_this_machine() -> None:
    found = CliRunner().invoke(elytron_group, ["console", "--url", "http://127.0.0.1:9", "--host", "0.0.0.0"])
    assert "must be a local address" in str(found.exception) + found.output


@pytest.mark.usefixtures("whole_starts")
async def test_a_command_serves_the_console_until_it_is_interrupted(tmp_path: Path) -> None:
    store = str(tmp_path / "m.db")
    async with elytron.open(store, space="ada"):
        pass
    code = "from elytron_cli.main import run_command_line; run_command_line()"
    for arguments in (["--store", store, "--space", "ada"], ["--url", "http://127.0.0.1:9"]):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, "console", "--port", "0", *arguments, "--json", stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        told = b""
        while not told.rstrip().endswith(b"}"):
            told += await process.stdout.readline()
        address = json.loads(told)["address"].removesuffix("/console")
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as client:
            answer = await client.get("/console/session")
        assert answer.status_code == (503 if "--url" in arguments else 200)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
