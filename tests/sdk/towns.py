"""Turns that each name a town, and a model that extracts it, for tests of the queue."""

from typing import Any

from tests.sdk.turns import answering, item, items

import elytron
from elytron.models import ScriptedModel
from elytron_core.clock import FrozenClock
from elytron_core.ids import SpaceId
from elytron_core.scope import Scope

PORTO = items(item("The user lives in Porto.", "home is Porto these days"))
SPACE = SpaceId("ada")


def talk(conversation: str) -> Scope:
    """Return the scope of a conversation of the space."""
    return Scope(space=SPACE, conversation=conversation)


NAMES = (
    "Aarhus", "Bergen", "Cork", "Dijon", "Essen", "Fulda", "Ghent", "Hull", "Izmir", "Jaffa",
    "Kazan", "Lodz", "Malmo", "Nice", "Oulu", "Pisa", "Quito", "Riga", "Split", "Turin",
)  # fmt: skip


def towns(count: int) -> ScriptedModel:
    """Return a model that extracts a town from each of the turns in `said`."""
    return answering(
        *(
            (f"the bells of {name} ", items(item(fact(number), f"bells of {name} wake me", topic=name)))
            for number, name in enumerate(NAMES[:count])
        )
    )


def said(number: int) -> str:
    return f"Mornings the bells of {NAMES[number]} wake me."


def fact(number: int) -> str:
    return f"{NAMES[number]} {NAMES[number][::-1]} {NAMES[-1 - number]}: bells."


def opened(store: Any, clock: FrozenClock, model: ScriptedModel | None, /, **more: Any) -> elytron.RuntimeOpening:
    return elytron.open(store, space="ada", clock=clock, language_model=model, **more)
