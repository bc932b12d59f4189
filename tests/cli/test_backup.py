"""`elytron backup` and `elytron migrate`: the whole store, copied or moved, and nothing half done."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine
from tests.gateway.asking import add

import elytron as sdk
from elytron_gateway.service import MemoryGateway
from elytron_gateway.wire import UserRequest


def states(elytron: CommandLine, *options: str) -> list[str]:
    """Return the fingerprints of the two spaces."""
    found: list[str] = []
    for space in ("ada", "bob"):
        report = elytron.json("inspect", "--fingerprints", "--space", space, *options)
        found += [report["state_fingerprint"], report["event_fingerprint"]]
    return found


@pytest.fixture(params=["m.db", "m/"])
def store(request: pytest.FixtureRequest, elytron: CommandLine) -> str:
    """Return a store with two spaces and an access key in it."""
    url = str(request.param)
    for number in range(3):
        elytron("--store", url, "--space", "ada", "add", f"The ferry leaves at {number}.")
    elytron("--store", url, "--space", "bob", "add", "Bob likes coffee.")
    elytron("--store", url, "access", "add", "--kind", "operator", "--label", "first")
    return url


class TestRestore:
    def test_a_backup_is_restored_as_a_store_and_overwrites_none(self, elytron: CommandLine, store: str) -> None:
        before = states(elytron, "--store", store)
        elytron("--store", store, "backup", "kept")
        source = "kept" if store == "m/" else str((elytron.folder / "kept").rename(elytron.folder / "kept.db"))
        target = "new/place/" if store == "m/" else "new/place.db"
        report = elytron.json("--store", target, "restore", source)
        assert report["spaces"] == 3
        assert states(elytron, "--store", target) == before
        assert "already exists" in elytron.error("--store", target, "restore", source, expect=2)["reason"]

    def test_an_archive_is_restored_into_a_new_store_but_not_over_a_space(self, elytron: CommandLine) -> None:
        elytron("add", "The ferry leaves at six.")
        exported = elytron.json("export", "a.ely")
        restored = elytron.json("--store", "other.db", "restore", "a.ely")
        assert restored["state_fingerprint"] == exported["state_fingerprint"]
        assert elytron.error("--store", "other.db", "restore", "a.ely", expect=4)["key"] == "space_in_use"

    def test_invalid_backups_restore_nothing(self, elytron: CommandLine) -> None:
        for name, content in (("a.db", b"no store"), ("b.db", b"")):
            elytron.error("--store", "new.db", "restore", elytron.write(name, content), expect=12)
            assert not (elytron.folder / "new.db").exists()
        elytron.error("--store", "new.db", "restore", "nowhere.db", expect=3)
        assert not (elytron.folder / "new.db").exists()

    def test_a_backup_needs_a_local_path(self, elytron: CommandLine) -> None:
        elytron.make()
        elytron("backup", "kept")
        (elytron.folder / "kept").rename(elytron.folder / "kept.db")
        assert "--store" in elytron.error("--store", "memory:", "restore", "kept.db", expect=2)["reason"]


def test_a_copy_needs_one_source_and_one_target(elytron: CommandLine) -> None:
    for stores in ((), ("a.db", "b.db", "c.db")):
        assert "TARGET" in elytron.error("migrate", *stores, expect=2)["reason"]


async def fill_spaces(store: Path) -> None:
    """Let a gateway user write to the default app and another."""
    async with sdk.open(store, space=None) as memory:
        gateway = MemoryGateway(memory)
        ada = (await gateway.create_user(UserRequest(user_id="ada"))).model_dump()
        for place in ({}, {"app_id": "travel", "project_id": "ferries"}):
            await gateway.add(add(ada | place, "The ferry leaves at six."))


def test_a_user_is_exported_with_the_spaces_of_all_apps(elytron: CommandLine) -> None:
    asyncio.run(fill_spaces(elytron.folder / "m.db"))
    told = elytron.json("--store", "m.db", "--space", "ada", "export", "--user", "hers")
    assert [archive["space"] for archive in told["archives"]] == ["ada", "ada/travel/ferries"]
    for number, archive in enumerate(told["archives"]):
        restored = elytron.json("--store", f"{number}.db", "--space", archive["space"], "restore", archive["path"])
        assert restored["state_fingerprint"] == archive["state_fingerprint"]
    assert (
        "already" in elytron.error("--store", "m.db", "--space", "ada", "export", "--user", "hers", expect=2)["reason"]
    )
    elytron.error("--store", "m.db", "--space", "nobody", "export", "--user", "none", expect=3)
    assert not (elytron.folder / "none").exists()


@pytest.mark.parametrize("space", ["..", "a/../../b", "漢" * 100])
def test_a_space_of_any_name_is_exported_into_the_folder_of_its_user(elytron: CommandLine, space: str) -> None:
    elytron("--space", space, "add", "tea")
    (archive,) = elytron.json("--space", space, "export", "--user", "hers")["archives"]
    (path,) = (elytron.folder / "hers").iterdir()
    assert Path(archive["path"]).name == path.name
    assert (elytron.folder / "hers").stat().st_mode & 0o77 == 0
    assert elytron.json("--store", "other.db", "--space", space, "restore", str(path))["space"] == space


def test_a_user_is_not_exported_to_a_file_and_a_missing_space_creates_no_folder(elytron: CommandLine) -> None:
    elytron("add", "tea")
    (elytron.folder / "a.txt").write_text("mine")
    assert "not a usable folder" in elytron.error("export", "--user", "--force", "a.txt", expect=2)["reason"]
    elytron.error("--space", "nobody", "export", "--user", "hers", expect=3)
    assert not (elytron.folder / "hers").exists()


class TestPublicArchive:
    def test_an_empty_archive_is_refused_with_a_hint(self, elytron: CommandLine) -> None:
        elytron("add", "The ferry leaves at six.")
        told = elytron.error("export", "a.ely", "--public", expect=2)
        assert "export without --public" in told["reason"]
        assert not (elytron.folder / "a.ely").exists()
        elytron("facts", "add", "home", "Lisbon")
        elytron("export", "a.ely", "--public")
        told = elytron.error("--store", "other.db", "import", "a.ely", expect=2)
        assert "--mode bootstrap" in told["reason"]


class TestBackup:
    def test_impossible_file_names_are_rejected(self, elytron: CommandLine) -> None:
        elytron("add", "tea")
        assert "not a valid file name" in elytron.error("backup", "x" * 5_000, expect=2)["reason"]

    def test_a_backup_is_an_exact_copy_of_the_store(self, elytron: CommandLine, store: str) -> None:
        report = elytron.json("--store", store, "backup", "kept.db")
        assert (report["spaces"], report["sealed"]) == (3, False)
        copy = "kept.db" if store == "m.db" else "file:kept.db"
        assert states(elytron, "--store", copy) == states(elytron, "--store", store)
        assert len(elytron.json("--store", copy, "access", "list")["items"]) == 1
        assert not list(elytron.folder.glob("*.partial*"))

    def test_a_backup_is_taken_while_the_store_is_in_use(self, elytron: CommandLine, store: str) -> None:
        with sdk.open(store, space="ada") as memory:
            memory.add("The harbour is closed.")
            elytron("--store", store, "backup", "kept")
            memory.add("The harbour is open.")
            copy = f"{'sqlite' if store == 'm.db' else 'file'}:kept"
            texts = {item["text"] for item in elytron.json("list", "--store", copy, "--space", "ada")["items"]}
        assert "The harbour is closed." in texts
        assert "The harbour is open." not in texts

    def test_a_sealed_store_stays_sealed_and_no_key_is_needed(self, elytron: CommandLine, tmp_path: Path) -> None:
        elytron("keys", "create", "keys.json")
        for url in ("s.db", "s/"):
            elytron("--store", url, "--key-file", "keys.json", "add", "The door code is vq4417x.")
            assert elytron.json("--store", url, "backup", f"kept-{url[:2].strip('/')}")["sealed"] is True
        assert b"vq4417x" not in (tmp_path / "kept-s.").read_bytes()
        found = elytron.json("--store", "sqlite:kept-s.", "--key-file", "keys.json", "recall", "door code")
        assert found["hits"][0]["text"] == "The door code is vq4417x."

    @pytest.mark.parametrize(
        ("arguments", "code", "key"),
        [
            (["--store", "memory:", "backup", "b"], 8, "unsupported"),
            (["--store", "none.db", "backup", "b"], 3, "store_missing"),
            (["--store", "empty.db", "backup", "b"], 12, "store_foreign"),
            (["--store", "text.db", "backup", "b"], 12, "store_foreign"),
            (["--store", "folder", "backup", "b"], 12, "store_foreign"),
            (["--store", "m.db", "backup", "text.db"], 2, "invalid_input"),
            (["--store", "m.db", "backup", "no/such/folder/b"], 9, "store_unavailable"),
        ],
    )
    def test_an_impossible_backup_is_reported_and_leaves_nothing(
        self, elytron: CommandLine, arguments: list[str], code: int, key: str
    ) -> None:
        elytron("add", "tea")
        elytron.write("empty.db", b"")
        elytron.write("text.db", b"not a database at all" * 100)
        (elytron.folder / "folder").mkdir()
        assert elytron.error(*arguments, expect=code)["key"] == key
        assert not (elytron.folder / "b").exists()
        assert not list(elytron.folder.glob("*.partial*"))

    def test_a_damaged_store_cannot_be_backed_up(self, elytron: CommandLine) -> None:
        elytron("add", "tea")
        raw = sqlite3.connect(elytron.folder / "m.db")
        raw.execute("UPDATE documents SET body = x'00' WHERE collection = 'turns'")
        raw.commit()
        raw.close()
        assert elytron.error("backup", "b.db", expect=13)["key"] == "store_corrupt"
        assert not (elytron.folder / "b.db").exists()


class TestMigrate:
    @pytest.mark.parametrize("target", ["new.db", "new/", "embedded:new"])
    def test_every_space_is_copied_unchanged_to_the_other_store(
        self, elytron: CommandLine, store: str, target: str
    ) -> None:
        report = elytron.json("--store", store, "migrate", "--to", target)
        assert {item["space"] for item in report["spaces"]} == {"ada", "bob", "elytron:system"}
        assert states(elytron, "--store", target) == states(elytron, "--store", store)
        assert len(elytron.json("--store", target, "access", "list")["items"]) == 1
        elytron("--store", target, "--space", "ada", "add", "And it goes on.")
        assert elytron.json("--store", target, "--space", "ada", "recall", "ferry")["outcome"] == "found"
        assert elytron.json("--store", target, "inspect", "--check")["store_check"]["problems"] == []

    def test_a_store_is_copied_into_a_sealed_one_and_back(self, elytron: CommandLine, store: str) -> None:
        elytron("keys", "create", "keys.json")
        assert elytron.json("--store", store, "migrate", "--to", "s.db", "--to-key-file", "keys.json")["sealed"] is True
        sealed = ("--store", "s.db", "--key-file", "keys.json")
        assert states(elytron, *sealed) == states(elytron, "--store", store)
        elytron(*sealed, "migrate", "--to", "back/")
        assert states(elytron, "--store", "back/") == states(elytron, "--store", store)

    def test_a_store_with_content_is_left_unchanged(self, elytron: CommandLine, store: str) -> None:
        elytron("--store", "used.db", "add", "tea")
        before = elytron.json("--store", "used.db", "inspect", "--fingerprints")["state_fingerprint"]
        for target, to in (("used.db", "--to"), (store, "--to")):
            assert elytron.error("--store", store, "migrate", to, target, expect=2)["key"] == "invalid_input"
        assert elytron.json("--store", "used.db", "inspect", "--fingerprints")["state_fingerprint"] == before
        assert elytron.error("--store", "none.db", "migrate", "--to", "x.db", expect=3)["key"] == "store_missing"
        assert not [name for name in ("none.db", "x.db") if (elytron.folder / name).exists()]

    def test_people_see_what_was_copied(self, elytron: CommandLine, store: str) -> None:
        assert "documents" in elytron("--store", store, "migrate", "--to", "new.db", "--no-json").stdout
        assert "sealed" in elytron("--store", store, "backup", "kept", "--no-json").stdout
