"""Export and import in the console: previews change nothing, messages are imported once, and limits apply."""

import io
import json
import zipfile
from pathlib import Path

import httpx
import pytest
from tests.console.conftest import Keys, Watched, bearer
from tests.transports.serving import Served

from elytron_core.contracts.memories import MemoryListRequest
from elytron_core.contracts.transcript import MemoryWriteRequest

pytestmark = pytest.mark.anyio

ZIP, FILE = {"Content-Type": "application/zip"}, {"Content-Type": "application/octet-stream"}
CHAT = [{"role": "user", "content": "The kiln fires at nine."}, {"role": "assistant", "content": "Noted."}]
MESSAGES = json.dumps(CHAT).encode()


async def remember(server: Served, text: str) -> None:
    write = {"kind": "transcript", "turns": [{"messages": [{"text": text}]}]}
    request = MemoryWriteRequest.model_validate({"write": write, "scope": {"space": "ada"}})
    await server.memory.operate(request)


async def texts(server: Served, space: str) -> list[str]:
    request = MemoryListRequest.model_validate({"scope": {"space": space}})
    return [item.text for item in (await server.memory.operate(request)).items]


async def test_an_archive_is_previewed_then_imported(server: Served, client: httpx.AsyncClient, keys: Keys) -> None:
    await remember(server, "Ada likes tea.")
    fetched = await client.get("/console/archive?include_private=true", headers=bearer(keys.user))
    assert fetched.headers["content-disposition"].startswith("attachment")
    known = bearer(keys.stranger) | ZIP
    preview = (await client.put("/console/archive?dry_run=true", content=fetched.content, headers=known)).json()
    assert (preview["dry_run"], preview["imported"], await texts(server, "bob")) == (True, {"turns": 1}, [])
    done = (await client.put("/console/archive", content=fetched.content, headers=known)).json()
    assert (done["changed"], await texts(server, "bob")) == (True, ["Ada likes tea."])


async def test_messages_of_another_program_are_imported_once(
    server: Served, client: httpx.AsyncClient, keys: Keys
) -> None:
    known = bearer(keys.user) | FILE
    place = "/console/transcripts?name=kiln.json"
    preview = (await client.put(f"{place}&dry_run=true", content=MESSAGES, headers=known)).json()
    assert (preview["messages"], preview["stored"], await texts(server, "ada")) == (2, 0, [])
    for stored in (2, 0):
        report = (await client.put(place, content=MESSAGES, headers=known)).json()
        assert (report["stored"], report["duplicates"]) == (stored, 2 - stored)
    assert await texts(server, "ada") == ["The kiln fires at nine.", "Noted."]


async def test_a_user_cannot_import_into_another_space(server: Served, client: httpx.AsyncClient, keys: Keys) -> None:
    for path, kind in (("archive?", ZIP), ("transcripts?name=kiln.json&", FILE)):
        place = f"/console/{path}space=ada"
        answer = await client.put(place, content=MESSAGES, headers=bearer(keys.stranger) | kind)
        assert (answer.status_code, answer.json()["code"]) == (403, "permission_refused")
    assert (await client.get("/console/archive?space=ada", headers=bearer(keys.stranger))).status_code == 403
    restore = "/console/archive?mode=full_restore"
    assert (await client.put(restore, content=b"PK", headers=bearer(keys.stranger) | ZIP)).status_code == 403
    assert await texts(server, "ada") == []


@pytest.mark.parametrize("name", ["", "..", "a/b.json", "a\\b.json", "a\nb.json", "\u202eb.json", "x" * 300])
async def test_an_invalid_file_name_is_rejected(client: httpx.AsyncClient, keys: Keys, name: str) -> None:
    place = f"/console/transcripts?{httpx.QueryParams({'name': name})}"
    answer = await client.put(place, content=MESSAGES, headers=bearer(keys.user) | FILE)
    assert (answer.status_code, answer.json()["details"]["field"]) == (422, "name")


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"[]", b"PK\x03\x04"])
async def test_an_invalid_file_changes_nothing(
    server: Served, client: httpx.AsyncClient, keys: Keys, content: bytes
) -> None:
    for path, kind in (("archive", ZIP), ("transcripts?name=kiln.json", FILE)):
        answer = await client.put(f"/console/{path}", content=content, headers=bearer(keys.user) | kind)
        assert (answer.status_code, answer.json()["code"]) == (422, "unreadable_file")
    assert await texts(server, "ada") == []


async def test_an_oversized_file_is_not_read(
    client: httpx.AsyncClient, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_console.routes.memory_routes.TRANSCRIPT_BYTES", 10)
    answer = await client.put("/console/transcripts?name=a.txt", content=b"x" * 11, headers=bearer(keys.user) | FILE)
    assert answer.status_code == 413


async def test_a_refused_write_is_reported(server: Served, client: httpx.AsyncClient, keys: Keys) -> None:
    long = json.dumps([{"role": "user", "content": "x" * 2_000_000}]).encode()
    answer = await client.put("/console/transcripts?name=a.json", content=long, headers=bearer(keys.user) | FILE)
    assert answer.status_code == 422
    assert await texts(server, "ada") == []


async def test_a_page_exports_and_imports(open_server: Served, page: Watched, tmp_path: Path) -> None:
    await remember(open_server, "The boat is blue.")
    found = page.page
    await page.go("transfer")
    async with found.expect_download() as begun:
        await found.get_by_role("button", name="Export").click()
    archive = tmp_path / "memory.elytron.zip"
    await (await begun.value).save_as(archive)
    assert "journal.jsonl" in zipfile.ZipFile(io.BytesIO(archive.read_bytes())).namelist()
    saved = found.get_by_role("status").filter(has_text="Saved")
    assert "1 turns" in await saved.inner_text()
    assert "Left out" not in await saved.inner_text()
    await found.get_by_label("What to export").select_option("false")
    async with found.expect_download():
        await found.get_by_role("button", name="Export").click()
    await saved.get_by_text("Left out: 1 conversations").wait_for()

    panel = found.get_by_role("region", name="Import an archive")
    await panel.get_by_label("File").set_input_files(archive)
    await panel.get_by_role("button", name="Preview import").click()
    await panel.get_by_text("Already here").wait_for()
    assert "Archive contents" in await panel.inner_text()
    await panel.get_by_role("button", name="Import", exact=True).click()
    await panel.get_by_text("nothing new").wait_for()

    panel = found.get_by_role("region", name="Import messages")
    file = {"name": "kiln.json", "mimeType": "application/json", "buffer": MESSAGES}
    await panel.get_by_label("File").set_input_files(file)  # pyright: ignore[reportArgumentType]
    await panel.get_by_role("button", name="Preview import").click()
    await panel.get_by_text("Nothing has been stored yet").wait_for()
    assert len(await texts(open_server, "ada")) == 1
    await panel.get_by_role("button", name="Import", exact=True).click()
    await panel.get_by_text("imported").wait_for()
    assert len(await texts(open_server, "ada")) == 3
    broken = {"name": "kiln.pdf", "mimeType": "application/pdf", "buffer": b"%PDF"}
    await panel.get_by_label("File").set_input_files(broken)  # pyright: ignore[reportArgumentType]
    await panel.get_by_role("button", name="Preview import").click()
    await panel.get_by_text("is not a supported transcript").wait_for()
    # The browser itself logs that the file was refused.
    assert ([line for line in page.said if "422" not in line], page.foreign) == ([], [])
