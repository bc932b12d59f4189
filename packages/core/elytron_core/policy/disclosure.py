"""Disclosure of facts: private ones are shown only to a caller who asks for them by name."""

from elytron_core.planes import long_term


def may_disclose(fact: long_term.Fact, /, *, include_private: bool) -> bool:
    """Tell whether a fact may be shown to a caller who does or does not ask for private material."""
    return include_private or fact.privacy is not long_term.Privacy.PRIVATE
