"""Documents of the plane that `test_new_plane` adds to a copy of the packages: poems, each under its title."""

from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.planes.facts import FactPrivacy

POEMS = "poems"
ID_WORD = "poem"


class Poem(Value):
    """A poem of a conversation."""

    title: str
    text: str
    privacy: FactPrivacy = FactPrivacy.PUBLIC
    channel: str
    conversation: str
    updated_at: Instant
    forgotten_at: Instant | None = None
