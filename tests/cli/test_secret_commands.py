"""A user's own secret, from the command line."""

from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
OTHER_WORDS = "ozone drill grab fiber curtain grace pudding thank cruise elder eight picnic"
PASSPHRASE = "the tide table hangs here"


@pytest.fixture
def sealed(elytron: CommandLine) -> CommandLine:
    elytron("add", "the heronsnest key is under the oar")
    assert elytron.json("secret", "seal", standard_input=lines(WORDS))["state"] == "unlocked"
    return elytron


def lines(*said: str) -> bytes:
    """Return standard input with these lines."""
    return "\n".join((*said, "")).encode()


def test_words_are_twelve_and_made_again_each_time(elytron: CommandLine) -> None:
    first, second = (elytron.json("secret", "words")["words"] for _ in range(2))
    assert (len(first.split()), first == second) == (12, False)


def test_a_space_opens_with_its_secret_alone(sealed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert b"heronsnest" not in Path("m.db").read_bytes()
    assert sealed.json("secret", "status")["state"] == "locked"
    assert sealed.error("recall", "heronsnest", expect=15)["key"] == "space_locked"
    monkeypatch.setenv("ELYTRON_SPACE_SECRET", WORDS)
    assert "under the oar" in sealed.json("recall", "heronsnest key")["hits"][0]["text"]
    shown = sealed("config", "show").stdout
    assert "sausage" not in shown
    monkeypatch.setenv("ELYTRON_SPACE_SECRET", OTHER_WORDS)
    assert sealed.error("recall", "heronsnest", expect=5)["key"] == "secret_refused"


def test_a_secret_is_changed(sealed: CommandLine) -> None:
    changed = sealed.json("secret", "change", "--new-passphrase", standard_input=lines(WORDS, PASSPHRASE))
    assert changed["kind"] == "passphrase"
    refused = sealed.error("secret", "unlock", standard_input=lines(WORDS), expect=5)
    assert refused["key"] == "secret_refused"
    opened = sealed.json("secret", "unlock", "--passphrase", standard_input=lines(PASSPHRASE))
    assert opened["state"] == "unlocked"
    assert sealed.json("secret", "lock")["state"] == "locked"


def test_wrong_words_are_refused_and_not_repeated(sealed: CommandLine) -> None:
    wrong = lines(WORDS.replace("yellow", "zebra"))
    error = sealed.error("secret", "unlock", standard_input=wrong, expect=2)
    assert (error["key"], "zebra" in str(error)) == ("words_invalid", False)


def test_a_locked_space_is_checked_and_erased(sealed: CommandLine) -> None:
    assert sealed.json("doctor")["store"]["state"] == "sound"
    sealed("erase", "--all", "--yes")
    assert sealed.json("secret", "status")["state"] == "plain"
