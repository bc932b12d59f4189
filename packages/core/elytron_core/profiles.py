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
        short = value.removeprefix("profile-") if isinstance(value, str) else value
        return next((name for name in cls if name.value == short), None)


class StoreCapacity(Value):
    """Bounds of a store. A write beyond them is refused as a whole."""

    records: Count
    events: Count
    blob_bytes: Count
    snapshot_bytes: Count
    """All documents together, as a snapshot of the store would hold them."""


class ErasurePromise(StrEnum):
    """What remains of erased bytes when an erasure returns."""

    NO_BYTE = "no_byte"
    """Nothing, in no file of the store and no remains."""
    OF_TABLES = "of_tables"
    """Nothing in the tables of a database server; each erasure names what its log, replicas and backups may hold."""
    OF_SERVER = "of_server"
    """As the store of the server, which has the bytes."""


class ErasurePlace(StrEnum):
    """Place in which a database server has bytes of what is erased."""

    ROWS = "rows"
    TABLES = "tables"
    LOG = "log"
    COPIES = "copies"


class ErasureState(StrEnum):
    """State of erased bytes in one place."""

    GONE = "gone"
    PENDING = "pending"
    """They go with the server's own work."""
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
    """A document whose time is over can be taken away for good."""
    sealed: bool = False
    """Bodies and blobs are encrypted before the engine sees them."""
    nodes: bool = False
    """Other machines write to it too, so what a handle remembers of a space is compared before it is used."""
    queue_index: bool = False
    """It lists the spaces with unfinished jobs without looking at the others."""
    following: bool = True
    """A read shows what other handles have committed, so a reader that waits for more asks again from time to time."""


class TranscriptGovernanceBudget(Value):
    """Bounds of a transcript in one report. They shorten lists and never reveal what a view hides."""

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
    """Of one text that is written: a message, a fact, a procedure."""
    render_chars: Count
    """Of one projected block."""
    maintenance_chars: Count
    """Of one turn, or of the turns together, that maintenance shows a model."""
    runtimes: Count
    """Of how many spaces the indexes are held in memory at once; others are read again when they are asked for."""
    subscriptions: Count
    hops: Count
    transcript: TranscriptGovernanceBudget


class HostProfile(Value):
    """A kind of place with what it is bounded by. Without `capacity`, the store's device is the bound."""

    name: ProfileName
    budget: ProfileBudget
    capacity: StoreCapacity | None = None
    engines: tuple[str, ...] = ()
    """The only engines that a store may have here; empty: any."""

    @property
    def is_esp(self) -> bool:
        return self.name in {ProfileName.ESP_STANDALONE, ProfileName.ESP_SDK}


class MemoryPressure(StrEnum):
    """Memory pressure of the host; budgets shrink to 100, 60 and 35 per cent."""

    NORMAL = "normal"
    CAUTIOUS = "cautious"
    CRITICAL = "critical"


class ModeInput(Value):
    """Mode of the host's device; it decides which memory actions are admitted now."""

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
    """Admission of an action in a mode, and the reason of a refusal."""

    action: ModeAction
    admitted: bool
    reason: str = ""


def count_text(number: int, noun: str, plural: str = "", /) -> str:
    """Return a number with its noun; the plural ends in `s` unless one is given."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


class SpaceLoss(Value):
    """What repairs could not save of a space, up to the last of them. Each number is the least that was lost."""

    space: str | None
    """None if it is unknown whose it was."""
    documents: int
    entries: int
    blobs: int
    at: Instant
    what: str

    @property
    def summary(self) -> str:
        """The loss in words, without the name of its space."""
        counts = (
            count_text(self.documents, "document"),
            count_text(self.entries, "journal entry", "journal entries"),
            count_text(self.blobs, "index blob"),
        )
        lost = ", ".join(text for text in counts if not text.startswith("0 "))
        return f"{f'at least {lost}' if lost else 'an unknown number of memories'} ({self.what})"
