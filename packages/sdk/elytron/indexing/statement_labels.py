"""Labels of what is indexed: what a classifier says of each unit's text."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from elytron_core.ports.models import StatementClassifier, StatementLabel
from elytron_core.text.features import Trait
from elytron_index import Change

_TRAITS: Final = {StatementLabel.STANDING: Trait.STANDING, StatementLabel.OCCASION: Trait.OCCASIONAL}


def labelled(changes: Sequence[Change], statements: StatementClassifier, /) -> list[Change]:
    """Return `changes`, whose units have the traits that `statements` says their texts have."""
    texts = [unit.text for change in changes for unit in change.units]
    traits = map(_traits, statements.classify(texts))
    return [
        replace(
            change,
            units=tuple(
                unit._replace(traits=trait)
                for unit, trait in zip(change.units, islice(traits, len(change.units)), strict=True)
            ),
        )
        for change in changes
    ]


def is_standing(statements: StatementClassifier, text: str, /) -> bool:
    """Return whether `text` says what is to hold from now on."""
    (labels,) = statements.classify([text])
    return StatementLabel.STANDING in labels


def _traits(labels: frozenset[StatementLabel]) -> Trait:
    found = Trait.NOTHING
    for label in labels:
        found |= _TRAITS[label]
    return found
