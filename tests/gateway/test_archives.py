"""A space's archive includes the bytes of its resources and attachments, and restores them exactly."""

import json
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import elytron
from elytron_conformance.examples import blob
from elytron_core.contracts.archive import ImportMode
from elytron_core.errors import NotFound, UnreadableFile
from elytron_core.ids import SpaceId
from elytron_core.scope import Scope
from elytron_gateway import wire
from elytron_gateway.messages import MessageUpload
from elytron_gateway.resources import UploadedFile
from elytron_gateway.service import MemoryGateway

pytestmark = pytest.mark.anyio

ADA = Scope(space=SpaceId("ada"))
TERMS = b"# Terms\n\nPayment is due in thirty days."
PICTURE = bytes(range(256)) * 1_000


@pytest.fixture
async def archive(gateway: MemoryGateway, ada: dict[str, str], memory: elytron.MemoryRuntime, tmp_path: Path) -> Path:
    """Yield the archive of Ada's space: a resource, a picture, an empty file, and an attachment with an address."""
    await gateway.upload(wire.PlacedRequest(**ada), UploadedFile(TERMS, file_name="terms.md"))
    items = [
        {"type": "image", "upload_id": "one"},
        {"type": "image", "uri": "https://example.org/x.png"},
    ]
    said = {"sender_id": "ada", "role": "user", "timestamp": 1, "content": items}
    add = wire.GatewayAddRequest.model_validate({**ada, "session_id": "chat:c", "messages": [said]})
    await gateway.add(add, uploads={"one": MessageUpload("x.png", "image/png", PICTURE)})
    path = tmp_path / "ada.elytron"
    report = await memory.export(elytron.MemorySpaceExportRequest(scope=ADA, path=str(path), include_private=True))
    assert report.blobs == 2
    return path


def imports(path: Path, **more: Any) -> elytron.MemoryImportRequest:
    return elytron.MemoryImportRequest(scope=ADA, path=str(path), **more)


async def blobs(memory: elytron.MemoryRuntime) -> set[bytes]:
    store = memory.context.store
    keys = [
        document.ref.key
        for collection in ("gateway_resources", "gateway_attachments")
        for document in await store.scan(ADA.space, collection, limit=10)
    ]
    found: set[bytes] = set()
    for key in keys:
        try:
            found.add(await blob(store, key, space=ADA.space))
        except NotFound:
            continue
    return found


@pytest.mark.parametrize("engine", ["memory:", "file://{}/files", "sqlite:///{}/m.db"])
async def test_a_round_trip_restores_every_byte(archive: Path, tmp_path: Path, engine: str) -> None:
    async with elytron.open(engine.format(tmp_path), space=None) as other:
        report = await other.import_archive(imports(archive))
        assert report.blobs == 2
        assert await blobs(other) == {TERMS, PICTURE}
        gateway = MemoryGateway(other)
        ada = (await gateway.create_user(wire.UserRequest(user_id="ada"))).model_dump()
        query = wire.GatewaySearchRequest(**ada, query="payment due", scope=("resources",))
        (found,) = (await gateway.search(query)).results
        assert found.heading == "Terms"
        assert found.resource_id is not None
        assert (await gateway.retry_resource(wire.PlacedRequest(**ada), found.resource_id)).status == "extracted"
        assert (await other.context.store.check()).ok


async def test_exporting_an_import_yields_the_same_archive(archive: Path, tmp_path: Path) -> None:
    async with elytron.open("memory:", space=None) as other:
        await other.import_archive(imports(archive))
        again = tmp_path / "again.elytron"
        await other.export(elytron.MemorySpaceExportRequest(scope=ADA, path=str(again), include_private=True))
    with zipfile.ZipFile(archive) as first, zipfile.ZipFile(again) as second:
        assert {name: first.read(name) for name in first.namelist()} == {
            name: second.read(name) for name in second.namelist()
        }
        assert json.loads(first.read("manifest.json"))["version"] == 2


async def test_an_archive_without_files_is_readable_by_older_versions(tmp_path: Path) -> None:
    path = tmp_path / "plain.elytron"
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("The ferry leaves at six.")
        await memory.export(path, include_private=True)
    with zipfile.ZipFile(path) as plain:
        manifest = json.loads(plain.read("manifest.json"))
    assert (manifest["version"], "blobs" in manifest) == (1, False)


async def test_a_public_archive_contains_no_files(archive: Path, memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    path = tmp_path / "public.elytron"
    request = elytron.MemorySpaceExportRequest(scope=ADA, path=str(path))
    assert (await memory.export(request)).blobs == 0
    with zipfile.ZipFile(path) as public:
        assert not [name for name in public.namelist() if name.startswith("blobs/")]


async def test_bootstrap_imports_turns_but_no_files(archive: Path) -> None:
    async with elytron.open("memory:", space=None) as other:
        report = await other.import_archive(imports(archive, mode=ImportMode.BOOTSTRAP))
        assert (report.blobs, report.imported["turns"]) == (0, 2)


Change = Callable[[dict[str, bytes], dict[str, Any]], None]


def altered(members: dict[str, bytes], _manifest: dict[str, Any]) -> None:
    name = next(name for name in members if name.startswith("blobs/"))
    members[name] = members[name][:-1] + b"?"


def missing(members: dict[str, bytes], _manifest: dict[str, Any]) -> None:
    del members[next(name for name in members if name.startswith("blobs/"))]


def unnamed(members: dict[str, bytes], _manifest: dict[str, Any]) -> None:
    members["blobs/ff"] = b"x"


def nobodys(members: dict[str, bytes], manifest: dict[str, Any]) -> None:
    members["blobs/c0"] = b"x"
    manifest["blobs"].append({"key": "c0", "size": 1, "sha256": sha256(b"x").hexdigest()})


@pytest.mark.parametrize("change", [altered, missing, unnamed, nobodys])
async def test_files_that_contradict_the_manifest_change_nothing(archive: Path, change: Change) -> None:
    with zipfile.ZipFile(archive) as source:
        members = {name: source.read(name) for name in source.namelist()}
    manifest = json.loads(members["manifest.json"])
    change(members, manifest)
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(archive, "w") as target:
        for name, body in members.items():
            target.writestr(name, body)
    async with elytron.open("memory:", space=None) as other:
        with pytest.raises(UnreadableFile):
            await other.import_archive(imports(archive))
        assert await other.context.store.journal(ADA.space, after=0, limit=1) == []
