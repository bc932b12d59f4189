"""The operating system's errors as errors of the file engine."""

import errno
from collections.abc import Generator
from contextlib import contextmanager

from elytron_core.errors import PermissionRefused, StoreFailed, StoreFull, StoreUnavailable

ENGINE = "file"
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers of a device without room."""


@contextmanager
def while_writing(doing: str, /) -> Generator[None]:
    """Raise StoreFull where the device has no room, PermissionRefused, StoreUnavailable, or StoreFailed for others."""
    try:
        yield
    except PermissionError as error:
        raise PermissionRefused(
            "the file store may not be written by this user: give the folder to the user who runs elytron"
        ) from error
    except OSError as error:
        if error.errno in FULL:
            raise StoreFull(engine=ENGINE) from error
        if error.errno == errno.EROFS:
            raise StoreUnavailable("a file store writes its locks, and this place is read-only: copy it") from error
        raise StoreFailed(engine=ENGINE, doing=doing) from error


@contextmanager
def while_reading(what: str, /) -> Generator[None]:
    """Raise PermissionRefused where `what` may not be read, StoreUnavailable for any other failure of the block."""
    try:
        yield
    except PermissionError as error:
        raise PermissionRefused(
            f"{what} may not be read by this user: give the folder to the user who runs elytron"
        ) from error
    except OSError as error:
        raise StoreUnavailable(f"{what} cannot be read now: check the device and try again") from error
