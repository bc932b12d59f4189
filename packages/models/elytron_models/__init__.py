"""Chat models behind one port: dialects of model APIs, their stream parsers, and clients over HTTP.

Names are loaded when they are first used.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron_models.answer": "ModelAnswer StructuredAnswer TextModel answer_of ask ask_for",
        "elytron_models.client": "DIALECTS ModelClient StructuredOutput open_model",
        "elytron_models.dialect": "StreamParser parse_answer",
        "elytron_models.server": "ModelAddress address_of error_of key_of require_key",
    },
)
