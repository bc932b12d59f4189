"""Chat models behind one port: dialects of model APIs, their stream parsers, and clients over HTTP.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from elytron_core.lazy import loading as _loading

if TYPE_CHECKING:
    from elytron_models.address import ModelAddress, address_of, key_of
    from elytron_models.answer import ModelAnswer, answer_of, ask
    from elytron_models.client import DIALECTS, ModelClient, Structuring, open_model
    from elytron_models.failures import error_of
    from elytron_models.stream_parser import StreamParser, parse
    from elytron_models.structured_answer import StructuredAnswer, ask_for
    from elytron_models.text_model import TextModel

_HOMES = {
    "elytron_models.address": "ModelAddress address_of key_of",
    "elytron_models.answer": "ModelAnswer answer_of ask",
    "elytron_models.client": "DIALECTS ModelClient Structuring open_model",
    "elytron_models.failures": "error_of",
    "elytron_models.stream_parser": "StreamParser parse",
    "elytron_models.structured_answer": "StructuredAnswer ask_for",
    "elytron_models.text_model": "TextModel",
}

__all__ = [
    "DIALECTS",
    "ModelAddress",
    "ModelAnswer",
    "ModelClient",
    "StreamParser",
    "StructuredAnswer",
    "Structuring",
    "TextModel",
    "address_of",
    "answer_of",
    "ask",
    "ask_for",
    "error_of",
    "key_of",
    "open_model",
    "parse",
]


if not TYPE_CHECKING:  # type checkers read the imports above, and find misspelt names
    __getattr__ = _loading(__name__, _HOMES)
