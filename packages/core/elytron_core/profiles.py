"""Profiles: the kinds of environment a memory runs in, the hard limits of each, and the modes of a host."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core.clock import Instant
from elytron_core.model import Value

Count = Annotated[int, Field(ge=0)]


class ProfileName(StrEnum):
    """Platform of a memory."""

    ESP_STANDALONE = "esp-standalone-memory"
    ESP_SDK = "esp-embedded-sdk"
    LINUX_DEVICE = "linux-device-standalone-memory"
    MACOS_STANDALONE = "desktop-macos-standalone-memory"
    MACOS_SDK = "desktop-macos-embedded-sdk"
    WINDOWS_SDK = "desktop-windows-embedded-sdk"
    SERVER_GATEWAY = "server-linux-memory-gateway"
    SERVER_DEV_FULL = "server-linux-dev-full"

    @classmethod
    def _missing_(cls, value: object) -> "ProfileName | None":
        """Return the profile that hosts call by its longer name, with the prefix `profile-`."""
        short_name = value.removeprefix("profile-") if isinstance(value, str) else value
        return next((profile for profile in cls if profile.value == short_name), None)


class StoreCapacity(Value):
    """Limits of a store. A write beyond them is rejected as a whole."""

    records: Count
    events: Count
    blob_bytes: Count
    snapshot_bytes: Count
    """Total size of all documents, as in a snapshot of the store."""


class ErasurePromise(StrEnum):
    """What remains of erased bytes when an erasure returns."""

    NO_BYTE = "no_byte"
    """Nothing, in no file of the store."""
    OF_TABLES = "of_tables"
    """Nothing in the tables of a database server; each erasure lists what its log, replicas and backups may contain."""
    OF_SERVER = "of_server"
    """Depends on the server's store, which has the bytes."""


class ErasurePlace(StrEnum):
    """Where a database server has bytes of erased content."""

    ROWS = "rows"
    TABLES = "tables"
    LOG = "log"
    COPIES = "copies"


class ErasureState(StrEnum):
    """State of erased bytes in one place."""

    GONE = "gone"
    PENDING = "pending"
    """They are removed by the server's own maintenance."""
    OUT_OF_REACH = "out_of_reach"


class ErasureLayer(Value):
    """State of erased bytes in one place of a database server, and the reason if they are not gone."""

    place: ErasurePlace
    state: ErasureState
    reason: str = ""


class StoreCapabilities(Value):
    """Guarantees of a store beyond those of every store."""

    durable: bool
    """Committed documents outlive the handle."""
    single_writer: bool
    """No other process commits to it."""
    erasure: ErasurePromise
    ttl: bool
    """An expired document can be removed for good."""
    sealed: bool = False
    """Bodies and blobs are encrypted before the engine sees them."""
    nodes: bool = False
    """Other machines write to it too, so what a handle caches of a space is compared before use."""
    queue_index: bool = False
    """It lists the spaces with unfinished jobs without reading the others."""
    following: bool = True
    """A read shows what other handles have committed, so a waiting reader polls."""


class TranscriptGovernanceBudget(Value):
    """Limits of a transcript in one report. They shorten lists and never reveal what a view hides."""

    page_turns: Count
    host_refs_per_turn: Count
    attributes_per_turn: Count
    attribute_value_bytes: Count
    redaction_items: Count
    derived_refs: Count
    repair_issues: Count


class ProfileBudget(Value):
    """The hard limits of a profile."""

    http_body_bytes: Count
    source_chars: Count
    """Limit of one written text: a message, a fact, a procedure."""
    render_chars: Count
    """Limit of one projected block."""
    maintenance_chars: Count
    """Limit of one turn, or of the turns together, that maintenance sends to a model."""
    runtimes: Count
    """Number of spaces whose indexes stay in memory; others are reloaded when needed."""
    subscriptions: Count
    hops: Count
    transcript: TranscriptGovernanceBudget


class HostProfile(Value):
    """A kind of host with its limits. Without `capacity`, only the device limits the store."""

    name: ProfileName
    budget: ProfileBudget
    capacity: StoreCapacity | None = None
    engines: tuple[str, ...] = ()
    """The only engines allowed here; empty: any."""

    @property
    def is_esp(self) -> bool:
        return self.name in {ProfileName.ESP_STANDALONE, ProfileName.ESP_SDK}


class MemoryPressure(StrEnum):
    """Memory pressure of the host; it reduces budgets to 100, 60 and 35 per cent."""

    NORMAL = "normal"
    CAUTIOUS = "cautious"
    CRITICAL = "critical"


class ModeInput(Value):
    """Mode of the host's device; it decides which memory actions are admitted."""

    booting: bool = False
    pairing_required: bool = False
    pairing_known: bool = True
    foreground_overlay: bool = False
    voice_exclusive: bool = False
    config_active: bool = False
    maintenance_active: bool = False
    safe_mode: bool = False
    post_reply_deferral_elapsed: bool = True
    pressure: MemoryPressure = MemoryPressure.NORMAL


class HostRoom(Value):
    """Free memory of the host, and its reserve."""

    free_bytes: Annotated[int, Field(ge=0)]
    floor_bytes: Annotated[int, Field(ge=0)]


class ModeAction(StrEnum):
    """Action of a memory."""

    WRITE = "write"
    RECALL = "recall"
    PROJECT = "project"
    MAINTAIN = "maintain"
    INSPECT = "inspect"
    EXPORT = "export"
    IMPORT = "import"
    RECOVER = "recover"
    CLOSE = "close"


class ActionAdmission(Value):
    """Whether an action is admitted in a mode, and the reason if not."""

    action: ModeAction
    admitted: bool
    reason: str = ""


def count_text(number: int, noun: str, plural: str = "", /) -> str:
    """Return a number with its noun; the plural ends in `s` unless one is given."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


class SpaceLoss(Value):
    """What repairs could not save of a space, up to the last loss. Each number is a lower bound."""

    space: str | None
    """None if its owner is unknown."""
    documents: int
    entries: int
    blobs: int
    at: Instant
    what: str

    @property
    def summary(self) -> str:
        """The loss in words, without the name of its space."""
        count_texts = (
            count_text(self.documents, "document"),
            count_text(self.entries, "journal entry", "journal entries"),
            count_text(self.blobs, "index blob"),
        )
        lost_text = ", ".join(text for text in count_texts if not text.startswith("0 "))
        return f"{f'at least {lost_text}' if lost_text else 'an unknown number of memories'} ({self.what})"
