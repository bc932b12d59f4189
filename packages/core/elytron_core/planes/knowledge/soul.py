"""The soul planes: who a persona is. Memory keeps none of it; what touches it is handed over to its keeper."""

from enum import StrEnum


class Surface(StrEnum):
    """The eight surfaces of a persona's soul; a binding names the keeper of them all."""

    SELF_MODEL = "self_model"
    CONTINUITY = "continuity"
    INNER_LIFE = "inner_life"
    TEMPERAMENT = "temperament"
    RELATIONSHIPS = "relationships"
    MENTAL_PRIVACY = "mental_privacy"
    VALUES = "values"
    VOICE = "voice"
