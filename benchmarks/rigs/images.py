"""Disks whose power can be cut: ext4 in an image file in memory, mounted only for this process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

_IMAGE_BYTES = 64 * 1024 * 1024
_ROOM = "2g"
_GUARD = "ELYTRON_RIG_MOUNTS"


def why_not() -> str | None:
    """Return why no disk can be created here, or None if one can."""
    if sys.platform != "linux":
        return "mounting an image needs Linux"
    if os.geteuid() != 0:
        return "mounting an image needs root"
    for tool in ("unshare", "mount", "umount", "mkfs.ext4"):
        if shutil.which(tool) is None:
            return f"the program {tool!r} is not installed"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        return "this system does not let a process have mounts of its own"
    return None


def enter_own_mounts() -> None:
    """Restart this program in its own mount namespace, which ends with it; on the second call, do nothing."""
    if os.environ.get(_GUARD) is None:
        os.environ[_GUARD] = "1"
        again = [sys.executable, *sys.orig_argv[1:]]
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", *again])


class Disks:
    """Create disks in `folder`, on which this class mounts a file system in memory."""

    def __init__(self, folder: Path, /) -> None:
        self._folder = folder
        _call("mount", "-t", "tmpfs", "-o", f"size={_ROOM}", "elytron-rig", str(folder))
        self._blank = folder / "blank"
        with self._blank.open("wb") as image:
            image.truncate(_IMAGE_BYTES)
        _call("mkfs.ext4", "-q", "-F", str(self._blank))

    def new(self) -> "Disk":
        """Return an empty mounted disk."""
        return Disk(self._folder, self._blank)

    def close(self) -> None:
        _call("umount", str(self._folder))


class Disk:
    """One mounted image. Unsynced data exists only in the system's memory, which will be lost."""

    _made = 0

    def __init__(self, folder: Path, image: Path, /) -> None:
        Disk._made += 1
        self._folder = folder
        self._image = folder / f"image{Disk._made}"
        self.place = folder / f"mounted{Disk._made}"
        self.place.mkdir()
        _copy(image, self._image)
        # The file system's timer would write data back on its own; 300 s is longer than any run of this rig.
        try:
            _call("mount", "-o", "loop,commit=300", str(self._image), str(self.place))
        except BaseException:
            self._image.unlink()
            raise

    def after_power_cut(self) -> "Disk":
        """Return the mounted disk as it would be after a power cut now, without the data in the system's memory."""
        return Disk(self._folder, self._image)

    def close(self) -> None:
        _call("umount", str(self.place))
        self._image.unlink()
        self.place.rmdir()


def _copy(source: Path, target: Path) -> None:
    _call("cp", "--sparse=always", str(source), str(target))


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{command[0]} failed: {done.stderr.strip()}")
