"""Connections that are not accepted yet: accepted first, so that calls beyond the limit are refused at once.

An event loop may accept one connection a turn, and a turn answers a call. A client that connects while calls are
answered one after another would then wait unseen, as long as all before it take. If the system reports how many wait
(Linux), calls are held back until these are accepted; they are then queued as calls, or shed.
"""

import asyncio
import socket
import sys

from elytron_adapter.admission_control import FairPlaces
from elytron_core import limits

_UNACKED = slice(24, 28)
"""Offset of the length of a listening socket's queue in `struct tcp_info`."""


def untaken(listening: socket.socket, /) -> int:
    """Return how many connections wait to be taken up; 0 where the system does not tell."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None or sys.platform != "linux":
        return 0
    try:
        return int.from_bytes(listening.getsockopt(socket.IPPROTO_TCP, option, _UNACKED.stop)[_UNACKED], sys.byteorder)
    except OSError:
        return 0


async def take_up(listening: socket.socket, places: FairPlaces, /) -> None:
    """Hold calls back while many connections wait to be taken up, for as long as the server runs."""
    loop = asyncio.get_running_loop()
    while listening.fileno() >= 0:
        await asyncio.sleep(limits.BACKLOG_LOOK_S)
        if untaken(listening) <= limits.BACKLOG_HELD:
            continue
        with places.held():
            until = loop.time() + limits.BACKLOG_HOLD_S
            while untaken(listening) and loop.time() < until:  # noqa: ASYNC110 - each turn of the loop takes one up
                await asyncio.sleep(0)
