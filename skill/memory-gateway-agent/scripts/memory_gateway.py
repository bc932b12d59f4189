#!/usr/bin/env python3
"""Memory Gateway from a shell: the command `elytron gateway`, found in this Python or on the path."""

import json
import shutil
import subprocess
import sys

try:
    from elytron_cli.commands.servers.gateway import run_gateway
except ImportError:
    run_gateway = None


def main() -> None:
    """Run `elytron gateway` with this script's arguments: JSON on stdout, `{"error": text}` on stderr."""
    program = shutil.which("elytron")
    if run_gateway is not None:
        run_gateway()
    elif program is not None:
        sys.exit(subprocess.run([program, "gateway", *sys.argv[1:]], check=False).returncode)  # noqa: S603 - what its caller has on the path
    else:
        told = "Elytron is not installed here: install it with its extra 'client', or add it to the PATH"
        print(json.dumps({"error": told}), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
