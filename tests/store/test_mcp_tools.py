"""Six tools with the specified names and arguments, retries, and path rules; errors reveal nothing of the server."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from tests.store.mcp_file_server import Fault, FileServer, mcp_server, serving

from elytron_core.errors import (
    ElytronError,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    PermissionRefused,
    StoreBusy,
    StoreClosed,
    StoreFull,
    StoreUnavailable,
    Unauthorized,
    Unreachable,
)
from elytron_store.mcp import FileEntry, FileHit, ToolFiles, ToolSession, WriteMode, http_session

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).with_name("mcp_file_server.py")


@pytest.fixture
def files(tmp_path: Path) -> FileServer:
    return FileServer(tmp_path)


class Waits:
    """A sleep that only records its duration."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float, /) -> None:
        self.seconds.append(seconds)


def on(files: FileServer, waits: Waits | None = None) -> ToolFiles:
    session = ToolSession(lambda: Client(mcp_server(files), cache=None))
    return ToolFiles(session, project="notes", sleep=waits or Waits())


async def test_six_tools_are_called_with_the_specified_arguments(files: FileServer) -> None:
    tools = on(files)
    await tools.write("/a/b.txt", "héllo", mode=WriteMode.TRUNCATE)
    await tools.write("/a/b.txt", " world", mode=WriteMode.APPEND, offset=6)
    assert await tools.read("/a/b.txt") == "héllo world"
    assert await tools.read("/a/b.txt", offset=7, length=5) == "world"
    assert await tools.stat("/a/b.txt") == FileEntry("/a/b.txt", is_folder=False, size=12)
    assert await tools.list("/a") == (FileEntry("/a/b.txt", is_folder=False, size=12),)
    assert await tools.search("world", prefix="/a", limit=99) == (FileHit("/a/b.txt", 0, 11, "héllo world", 1.0),)
    await tools.delete("/a", recursive=True)
    assert await tools.stat("/a/b.txt") is None
    await tools.close()
    written = {"project": "notes", "path": "/a/b.txt", "content_encoding": "utf-8", "offset": 0}
    assert files.calls == [
        ("file_write", {**written, "content": "héllo", "mode": "TRUNCATE"}),
        ("file_write", {**written, "content": " world", "mode": "APPEND"}),
        ("file_read", {"project": "notes", "path": "/a/b.txt", "offset": 0, "length": -1}),
        ("file_read", {"project": "notes", "path": "/a/b.txt", "offset": 7, "length": 5}),
        ("file_stat", {"project": "notes", "path": "/a/b.txt"}),
        ("file_list", {"project": "notes", "path": "/a", "depth": 1, "limit": 256}),
        ("file_search", {"project": "notes", "query": "world", "path_prefix": "/a", "limit": 20}),
        ("file_delete", {"project": "notes", "path": "/a", "recursive": True}),
        ("file_stat", {"project": "notes", "path": "/a/b.txt"}),
    ]


async def test_missing_paths_are_empty_folders_and_count_as_deleted(files: FileServer) -> None:
    tools = on(files)
    assert await tools.list("/none") == ()
    await tools.delete("/none")
    with pytest.raises(NotFound):
        await tools.read("/none")
    await tools.close()


async def test_retryable_failures_are_retried_after_four_delays(files: FileServer) -> None:
    waits = Waits()
    tools = on(files, waits)
    files.faults = [Fault("file_stat", "RESOURCE_BUSY", retryable=True) for _ in range(4)]
    assert await tools.stat("/a") is None
    assert waits.seconds == [0.2, 0.5, 1.0, 2.0]
    files.faults = [Fault("file_stat", "RESOURCE_BUSY", retryable=True) for _ in range(5)]
    with pytest.raises(StoreBusy):
        await tools.stat("/a")
    assert waits.seconds == [0.2, 0.5, 1.0, 2.0] * 2
    await tools.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("NOT_FOUND", NotFound),
        ("PAYLOAD_TOO_LARGE", PayloadTooLarge),
        ("QUOTA_EXCEEDED", StoreFull),
        ("PERMISSION_DENIED", PermissionRefused),
        ("RESOURCE_BUSY", StoreBusy),
        ("INVALID_OFFSET", StoreUnavailable),
        ("not a code of theirs", StoreUnavailable),
        ("", StoreUnavailable),
    ],
)
async def test_other_failures_are_reported_immediately_without_server_details(
    files: FileServer, code: str, kind: type[ElytronError]
) -> None:
    waits = Waits()
    tools = on(files, waits)
    files.faults = [Fault("file_read", code)]
    with pytest.raises(kind) as failed:
        await tools.read("/private-path")
    assert type(failed.value) is kind
    assert waits.seconds == []
    assert not any(word in str(failed.value) for word in ("SECRET", "private", "theirs"))
    await tools.close()


async def test_a_failure_without_retry_information_is_not_retried() -> None:
    asked: list[str] = []

    class Failing:
        async def call(self, tool: str, _arguments: Mapping[str, Any], /) -> Any:
            asked.append(tool)
            return type("Answer", (), {"is_error": True, "text": json.dumps({"code": "RESOURCE_BUSY"})})()

        async def close(self) -> None:
            return

    with pytest.raises(StoreBusy):
        await ToolFiles(Failing(), project="notes", sleep=Waits()).read("/a")
    assert asked == ["file_read"]


async def test_an_append_that_arrived_is_not_repeated(files: FileServer) -> None:
    tools = on(files)
    files.faults = [Fault("file_write", "RESOURCE_BUSY", retryable=True, after=True)]
    await tools.write("/log", "one", mode=WriteMode.APPEND, offset=0)
    assert await tools.read("/log") == "one"
    files.faults = [Fault("file_write", "RESOURCE_BUSY", retryable=True)]
    await tools.write("/log", "two", mode=WriteMode.APPEND, offset=3)
    assert await tools.read("/log") == "onetwo"
    files.faults = [Fault("file_write", "RESOURCE_BUSY", retryable=True, torn_at=1)]
    with pytest.raises(Unreachable):
        await tools.write("/log", "three", mode=WriteMode.APPEND, offset=6)
    await tools.close()


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "a",
        "/a/",
        "/a//b",
        "/./a",
        "/a/.",
        "/a/../b",
        "/..",
        "/a b",
        "/a\tb",
        "/a\nb",
        "/a\x00b",
        "/" + "a" * 512,
    ],
)
async def test_an_invalid_path_reaches_no_server(files: FileServer, path: str) -> None:
    tools = on(files)
    calls: list[Callable[[], Any]] = [
        lambda: tools.read(path),
        lambda: tools.write(path, "", mode=WriteMode.APPEND),
        lambda: tools.delete(path, recursive=True),
    ]
    if path:
        calls += [lambda: tools.stat(path), lambda: tools.list(path), lambda: tools.search("x", prefix=path)]
    for call in calls:
        with pytest.raises(InvalidInput):
            await call()
    assert files.calls == []


@pytest.mark.parametrize("project", ["", "a/b", "a b", "..\\", "a" * 129])
def test_an_invalid_project_is_rejected(files: FileServer, project: str) -> None:
    session = ToolSession(lambda: Client(mcp_server(files), cache=None))
    with pytest.raises(InvalidInput):
        ToolFiles(session, project=project)


async def test_an_overfull_folder_is_reported(files: FileServer, tmp_path: Path) -> None:
    folder = tmp_path / "everyone" / "notes" / "full"
    folder.mkdir(parents=True)
    for number in range(257):
        (folder / str(number)).touch()
    tools = on(files)
    with pytest.raises(StoreUnavailable):
        await tools.list("/full")
    await tools.close()


async def test_another_kind_of_server_is_distinguished_from_a_file_server() -> None:
    class Other:
        async def call(self, _tool: str, _arguments: Mapping[str, Any], /) -> Any:
            return type("Answer", (), {"is_error": False, "text": json.dumps(["no"])})()

        async def close(self) -> None:
            return

    with pytest.raises(Unreachable):
        await ToolFiles(Other(), project="notes").read("/a")


async def test_over_http_a_key_opens_only_its_own_files(files: FileServer) -> None:
    async with serving(files, keys={"ada's": "ada", "bob's": "bob"}) as server:
        for key in ("ada's", "bob's"):
            tools = ToolFiles(http_session(server.url, api_key=key), project="notes")
            await tools.write("/mine", key, mode=WriteMode.TRUNCATE)
            assert await tools.read("/mine") == key
            await tools.close()
        for key in ("top-secret-key", None):
            tools = ToolFiles(http_session(server.url, api_key=key), project="notes")
            with pytest.raises(Unauthorized) as refused:
                await tools.read("/mine")
            assert "top-secret-key" not in str(refused.value)
            await tools.close()


async def test_a_slow_call_is_aborted_and_retried(files: FileServer) -> None:
    async with serving(files) as server:
        tools = ToolFiles(http_session(server.url, api_key=None, timeout_s=1.5), project="notes")
        await tools.write("/a", "text", mode=WriteMode.TRUNCATE)
        files.faults = [Fault("file_read", hang=True)]
        with pytest.raises(Unreachable):
            await tools.read("/a")
        assert await tools.read("/a") == "text"
        await tools.close()


async def test_a_session_survives_its_server(files: FileServer) -> None:
    async with serving(files) as server:
        tools = ToolFiles(http_session(server.url, api_key=None, timeout_s=5), project="notes")
        await tools.write("/a", "text", mode=WriteMode.TRUNCATE)
        port = server.port
    with pytest.raises(Unreachable):
        await tools.read("/a")
    async with serving(files, port=port):
        assert await tools.read("/a") == "text"
        await tools.close()
    with pytest.raises(StoreClosed):
        await tools.read("/a")


async def test_the_same_tools_work_over_stdio(tmp_path: Path) -> None:
    command = StdioServerParameters(command=sys.executable, args=[str(SERVER), str(tmp_path)])
    tools = ToolFiles(ToolSession(lambda: Client(command, cache=None)), project="notes")
    await tools.write("/a", "text", mode=WriteMode.APPEND)
    assert await tools.read("/a") == "text"
    await tools.close()
    assert (tmp_path / "everyone" / "notes" / "a").read_text() == "text"
