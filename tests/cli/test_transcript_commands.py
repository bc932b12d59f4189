"""Commands on transcripts and profiles: views, raw-text lifecycle, links, capabilities, public archives."""

import json
import zipfile
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

import elytron as sdk
from elytron_core.ids import SpaceId
from elytron_core.policy.platform.capabilities import profile_snapshot
from elytron_core.ports.store import DocumentRef, ErasureTarget
from elytron_core.profiles import ProfileName

SUPPORT = ("--conversation", "support")


def committed(folder: Path) -> str:
    """Commit two turns of a conversation and a fact based on the first; return the first's id."""
    scope = sdk.Scope.model_validate({"space": "default", "conversation": "support"})
    with sdk.open(folder / "m.db", scope=scope) as memory:
        turns: list[str] = []
        for number, text in enumerate(("Be brief.", "I like tea")):
            message = {"text": text, "role": "system" if number == 0 else "user", "speaker": "Ada"}
            delta = sdk.CanonicalTurnDelta.model_validate({"turn_id": f"t{number}", "input_messages": [message]})
            report = memory.commit_transcript(sdk.MemoryTranscriptCommitRequest(delta=delta))
            turns.append(str(report.turn_id))
        fact = sdk.FactDraft.model_validate(
            {"topic": "drink", "content": "Ada likes tea", "authority": "user_asserted", "citations": (turns[1],)}
        )
        memory.write(sdk.MemoryWriteRequest(write=sdk.LongTermExtraction(facts=(fact,))))
    return turns[0]


class TestReplay:
    def test_a_view_is_shown_a_page_at_a_time(self, elytron: CommandLine, tmp_path: Path) -> None:
        committed(tmp_path)
        page = elytron.json("transcript", "replay", *SUPPORT, "--limit", "1")
        assert page["slice"]["view"] == "host_ui"
        assert [message.get("text") for message in page["slice"]["turns"][0]["messages"]] == [None]
        rest = elytron.json("transcript", "replay", *SUPPORT, "--cursor", page["next_cursor"])
        assert [turn["sequence"] for turn in rest["slice"]["turns"]] == [2]
        raw = elytron.json("transcript", "replay", *SUPPORT, "--view", "raw_owner_only")
        assert raw["slice"]["turns"][0]["messages"][0]["text"] == "Be brief."

    def test_people_see_what_was_omitted_and_why(self, elytron: CommandLine, tmp_path: Path) -> None:
        committed(tmp_path)
        told = elytron("transcript", "replay", *SUPPORT, "--limit", "1", "--no-json").stdout
        assert "(operator_only)" in told
        assert "1 messages, 0 references" in told
        assert "--cursor 1:" in told

    def test_the_export_view_has_its_own_command(self, elytron: CommandLine, tmp_path: Path) -> None:
        committed(tmp_path)
        assert elytron.json("transcript", "export", *SUPPORT)["slice"]["view"] == "export"
        assert "view     export" in elytron("transcript", "export", *SUPPORT, "--no-json").stdout

    def test_an_unknown_cursor_is_refused(self, elytron: CommandLine, tmp_path: Path) -> None:
        committed(tmp_path)
        assert elytron.error("transcript", "replay", "--cursor", "1:x", expect=2)["key"] == "invalid_input"


class TestLifecycle:
    def test_text_is_deleted_and_its_dependants_are_listed(self, elytron: CommandLine, tmp_path: Path) -> None:
        committed(tmp_path)
        report = elytron.json("transcript", "lifecycle", "delete_raw", *SUPPORT, "--reason", "asked")
        assert (report["changed"], report["affected_turns"], report["reason"]) == (True, 2, "asked")
        assert [hit["text"] for hit in elytron.json("recall", "tea")["hits"]] == ["Ada likes tea"]
        told = elytron("transcript", "lifecycle", "review", *SUPPORT, "--no-json").stdout
        assert "dependants  shared_fact" in told

    def test_only_one_turn_is_masked(self, elytron: CommandLine, tmp_path: Path) -> None:
        turn = committed(tmp_path)
        assert elytron.json("transcript", "lifecycle", "mask", turn, *SUPPORT)["affected_turns"] == 1


class TestRepair:
    def test_sound_links_exit_successfully(self, elytron: CommandLine, tmp_path: Path) -> None:
        committed(tmp_path)
        assert elytron.json("transcript", "repair", *SUPPORT)["checked_derived_refs"] == 1

    def test_a_broken_link_is_reported_with_its_exit_code(self, elytron: CommandLine, tmp_path: Path) -> None:
        committed(tmp_path)
        fact = elytron.json("recall", "tea")["hits"]
        ids = [hit["id"] for hit in fact if hit["plane"] == "long_term"]
        with sdk.open(tmp_path / "m.db") as memory:
            erasure = ErasureTarget(
                space=SpaceId("default"), at=memory.runtime.context.clock.now(), refs=(DocumentRef("facts", ids[0]),)
            )
            memory.run(erased(memory.runtime, erasure))
        told = elytron("transcript", "repair", *SUPPORT, "--no-json", expect=13).stdout
        assert "orphan_derived_ref: derived_refs" in told


async def erased(memory: sdk.MemoryRuntime, erasure: ErasureTarget) -> None:
    """Erase a document directly in the store."""
    await memory.context.store.erase(erasure)


class TestPlatform:
    @pytest.mark.parametrize("name", ProfileName)
    def test_a_snapshot_is_printed_without_any_store(self, elytron: CommandLine, name: ProfileName) -> None:
        printed = elytron.json("platform", "capability-snapshot", "--profile", name.value)
        assert printed == json.loads(profile_snapshot(name).model_dump_json(exclude_none=True))

    def test_people_see_which_rule_refused(self, elytron: CommandLine) -> None:
        told = elytron("platform", "capability-snapshot", "--profile", "esp-embedded-sdk", "--no-json").stdout
        assert "adapter.http" in told
        assert "no: profile_allows" in told
        assert "write  " in told

    def test_the_available_operations_are_listed(self, elytron: CommandLine) -> None:
        elytron.make()
        assert elytron.json("platform", "capabilities")["recall"]["visible"] is True
        assert "recall " in elytron("platform", "capabilities", "--no-json").stdout


class TestPublicExport:
    def test_a_public_archive_contains_no_conversation_text(self, elytron: CommandLine, tmp_path: Path) -> None:
        committed(tmp_path)
        file = tmp_path / "public.elytron"
        report = elytron.json("export", str(file), "--public")
        assert report["redacted"]["turns"] == 2
        assert b"I like tea" not in zipfile.ZipFile(file).read("documents.jsonl")
        assert "skipped" in elytron("export", str(file), "--public", "--force", "--no-json").stdout
