"""A user's own secret, from the command line."""

import asyncio
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine
from tests.transports.live import Live

from elytron_adapter.access_keys import Principal
from elytron_adapter.http.secrets import secret_surfaces
from elytron_core.clock import SystemClock
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.ports.store import PutChange
from elytron_store.secret.derivation.user_key import terms_of_words
from elytron_store.secret.holds import fresh_until
from elytron_store.secret.records import SECRET_SLOT, SecretSlot, SecretSlotState, fresh_inner, secret_batch
from elytron_store.sqlite import SqliteStore

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


def test_twelve_new_words_are_generated_each_time(elytron: CommandLine) -> None:
    first, second = (elytron.json("secret", "words")["words"] for _ in range(2))
    assert (len(first.split()), first == second) == (12, False)


def test_a_space_opens_only_with_its_secret(sealed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_wrong_words_are_refused_and_not_echoed(sealed: CommandLine) -> None:
    wrong = lines(WORDS.replace("yellow", "zebra"))
    error = sealed.error("secret", "unlock", standard_input=wrong, expect=2)
    assert (error["key"], "zebra" in str(error)) == ("words_invalid", False)


def test_a_locked_space_is_checked_and_erased(sealed: CommandLine) -> None:
    assert sealed.json("doctor")["store"]["state"] == "sound"
    sealed("erase", "--all", "--yes")
    assert sealed.json("secret", "status")["state"] == "plain"


class AdaCalls:
    """Treats every caller as the user of one space."""

    async def authenticate(self, authorization: str | None, /) -> Principal:
        return Principal(id=str(authorization), kind=PrincipalKind.USER, space=SpaceId("ada"))


async def plant_cut_sealing() -> None:
    """Leave the store as a process killed during the first sealing of the space leaves it."""
    clock = SystemClock()
    store = await SqliteStore.open(Path("m.db"), clock=clock)
    slot = SecretSlot(
        state=SecretSlotState.MAKING,
        inner=fresh_inner(),
        terms=terms_of_words(),
        made_at=clock.now(),
        until=fresh_until(clock),
    )
    await store.commit(secret_batch(SpaceId("default"), clock, PutChange(SECRET_SLOT, slot.to_bytes(), 0)))
    await store.close()


def test_a_partially_sealed_space_is_erased_in_one_step(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    elytron("add", "the heronsnest key is under the oar")
    asyncio.run(plant_cut_sealing())
    monkeypatch.setenv("ELYTRON_SPACE_SECRET", WORDS)
    for command in (("recall", "key"), ("add", "more"), ("secret", "lock"), ("secret", "revoke")):
        refused = elytron.error(*command, expect=4)
        assert (refused["key"], "the whole space can be erased" in refused["reason"]) == (
            "space_incomplete",
            True,
        )
    assert elytron.json("doctor")["store"]["state"] == "sound"
    elytron("inspect", "--check")
    assert elytron.json("erase", "--all", "--dry-run")["decisions"][0]["outcome"] == "changed"
    assert elytron.json("erase", "--all", "--yes")["changed"] is True
    assert elytron.json("secret", "status")["state"] == "plain"
    assert elytron.json("recall", "key")["outcome"] == "nothing"


def test_a_space_on_a_server_is_sealed_opened_changed_and_granted(elytron: CommandLine) -> None:
    with Live(authenticator=AdaCalls(), further=(secret_surfaces,)) as live:
        where = ("--url", live.url, "--key", "ely_ada")
        assert elytron.json("secret", "status", *where)["state"] == "plain"
        sealed = elytron.json("secret", "seal", "--minutes", "5", *where, standard_input=lines(WORDS))
        assert (sealed["state"], sealed["kind"]) == ("unlocked", "words")
        assert elytron.json("secret", "grant", "--minutes", "9", *where)["grant_until"] is not None
        assert elytron.json("secret", "revoke", *where).get("grant_until") is None
        assert elytron.json("secret", "status", *where).get("grant_until") is None
        assert elytron.json("secret", "lock", *where)["state"] == "locked"
        opened = elytron("secret", "unlock", "--no-json", *where, standard_input=lines(WORDS)).stdout
        assert ("unlocked" in opened, "unlocked until" in opened, "sausage" in opened) == (True, True, False)
        assert elytron.json("secret", "rotate", *where, standard_input=lines(WORDS))["state"] == "unlocked"
        changed = elytron.json("secret", "change", "--new-passphrase", *where, standard_input=lines(WORDS, PASSPHRASE))
        assert changed["kind"] == "passphrase"
        granted = elytron("secret", "grant", "--no-json", *where).stdout
        assert "granted until" in granted


def test_people_see_the_state_and_the_words(sealed: CommandLine) -> None:
    shown = sealed("secret", "status", "--no-json").stdout
    assert ("locked" in shown, "words" in shown) == (True, True)
    assert len(sealed("secret", "words", "--no-json").stdout.split()) == 12


def test_a_missing_secret_is_requested(elytron: CommandLine) -> None:
    refused = elytron.error("secret", "seal", "--passphrase", standard_input=b"", expect=2)
    assert refused["key"] == "invalid_input"


def test_a_grant_that_would_not_outlive_its_command_is_refused(
    sealed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELYTRON_SPACE_SECRET", WORDS)
    refused = sealed.error("secret", "grant", "--minutes", "5", expect=8)
    assert (refused["key"], "--key-file" in refused["reason"]) == ("unsupported", True)


def test_a_grant_of_a_store_is_revoked_without_the_secret(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    elytron("keys", "create", "keys.json")
    monkeypatch.setenv("ELYTRON_KEY_FILE", "keys.json")
    elytron("secret", "seal", standard_input=lines(WORDS))
    assert elytron.error("secret", "grant", expect=15)["key"] == "space_locked"
    monkeypatch.setenv("ELYTRON_SPACE_SECRET", WORDS)
    elytron("secret", "grant", "--minutes", "5")
    monkeypatch.delenv("ELYTRON_SPACE_SECRET")
    assert elytron.json("secret", "status")["grant_until"] is not None
    assert elytron.json("secret", "revoke").get("grant_until") is None
    assert elytron.json("secret", "status").get("grant_until") is None


def test_a_space_is_sealed_again_under_a_new_key(sealed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sealed.error("secret", "rotate", standard_input=lines(OTHER_WORDS), expect=5)["key"] == "secret_refused"
    assert sealed.json("secret", "rotate", standard_input=lines(WORDS))["state"] == "locked"
    monkeypatch.setenv("ELYTRON_SPACE_SECRET", WORDS)
    assert "under the oar" in sealed.json("recall", "heronsnest key")["hits"][0]["text"]
