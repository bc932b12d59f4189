"""Sessions of hooks: their ids, and the memory space of each, so that no turn sees another session's content."""

import hashlib
import hmac
import re
from enum import StrEnum
from typing import Final

from elytron_agent import limits
from elytron_core.errors import InvalidInput
from elytron_core.limits import SPACE_CHARS

SESSION_CHARS: Final = 128
TURN_ID_CHARS: Final = 128
CREDENTIAL_CHARS: Final = 16_384


PREFIX: Final = "ak-"
_DIGEST_BYTES: Final = 16
_PROJECT: Final = re.compile(r"[A-Za-z0-9_.-]+")


class SessionHash(StrEnum):
    """How the id of a session is derived from a credential."""

    HMAC_SHA256 = "hmac-sha256"
    """HMAC under a secret of the installation, without which nobody can test guessed credentials."""
    SHA256 = "sha256"
    """Plain hash without a secret, as in go-ramjet."""


class TurnCode(StrEnum):
    """Error codes for the input of a hook."""

    PROJECT_REQUIRED = "PROJECT_REQUIRED"
    PROJECT_INVALID = "PROJECT_INVALID"
    SESSION_ID_REQUIRED = "SESSION_ID_REQUIRED"
    SESSION_ID_INVALID = "SESSION_ID_INVALID"
    TURN_ID_REQUIRED = "TURN_ID_REQUIRED"
    CREDENTIAL_REQUIRED = "CREDENTIAL_REQUIRED"
    CURRENT_INPUT_REQUIRED = "CURRENT_INPUT_REQUIRED"


class TurnInvalid(InvalidInput):
    """The input of a hook is invalid: `code` is one of TurnCode, `field` names the field."""

    detail_fields = ("field", "problem", "code")

    def __init__(self, *, code: TurnCode, field: str, problem: str) -> None:
        super().__init__(field=field, problem=problem)
        self.code = code


def session_of(credential: str, /, *, secret: bytes, by: SessionHash = SessionHash.HMAC_SHA256) -> str:
    """Return the session id for a credential, which is stable and cannot be reversed.

    Raises InvalidInput for an empty credential, or if the hash requires a secret and there is none.
    """
    if not credential or len(credential) > CREDENTIAL_CHARS:
        raise InvalidInput(field="credential", problem="is empty or too long")
    credential_bytes = credential.encode("utf-8", "surrogatepass")
    if by is SessionHash.SHA256:
        return f"{PREFIX}{hashlib.sha256(credential_bytes).digest()[:_DIGEST_BYTES].hex()}"
    if not secret:
        problem = "is missing: set session_secret, or set session_hash to sha256"
        raise InvalidInput(field="session_secret", problem=problem)
    return f"{PREFIX}{hmac.digest(secret, credential_bytes, 'sha256')[:_DIGEST_BYTES].hex()}"


def checked_project(project: str, /) -> str:
    """Return a valid project name. Raises TurnInvalid."""
    if not project.strip():
        raise TurnInvalid(code=TurnCode.PROJECT_REQUIRED, field="project", problem="is required")
    if len(project) > limits.PROJECT_CHARS or _PROJECT.fullmatch(project) is None:
        problem = f"has characters other than letters, digits, _ . -, or more than {limits.PROJECT_CHARS}"
        raise TurnInvalid(code=TurnCode.PROJECT_INVALID, field="project", problem=problem)
    return project


def checked_session(session: str, /) -> str:
    """Return a valid session id. Raises TurnInvalid."""
    if not session.strip():
        raise TurnInvalid(code=TurnCode.SESSION_ID_REQUIRED, field="session_id", problem="is required")
    is_path = session in {".", ".."} or "/" in session or "\\" in session
    if is_path or len(session) > SESSION_CHARS or not session.isprintable() or session != session.strip():
        problem = f"has slashes, control characters or more than {SESSION_CHARS} characters, or is . or .."
        raise TurnInvalid(code=TurnCode.SESSION_ID_INVALID, field="session_id", problem=problem)
    return session


def checked_turn(turn: str, /) -> str:
    """Return a valid turn id. Raises TurnInvalid."""
    if not turn.strip():
        raise TurnInvalid(code=TurnCode.TURN_ID_REQUIRED, field="turn_id", problem="is required")
    if len(turn) > TURN_ID_CHARS or not turn.isprintable() or turn != turn.strip():
        problem = f"has control characters, surrounding white space, or more than {TURN_ID_CHARS} characters"
        raise TurnInvalid(code=TurnCode.TURN_ID_REQUIRED, field="turn_id", problem=problem)
    return turn


def space_of(project: str, session: str, /) -> str:
    """Return the memory space of a session. Neither part can contain the separator."""
    name = f"{project}/{session}"
    if len(name) <= SPACE_CHARS:
        return name
    # Names that are not hashed never contain a double slash, so no name collides with a digest.
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{project[: SPACE_CHARS - len(digest) - 2]}//{digest}"
