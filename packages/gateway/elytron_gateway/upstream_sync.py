"""A server's task that sends an upstream its backlog, without waiting for the next message."""

import asyncio
import logging

from elytron.jobs.background import Background
from elytron_core.errors import ElytronError
from elytron_gateway import limits as gateway_limits
from elytron_gateway.service import Gateway

logger = logging.getLogger(__name__)


class CatchingUp:
    """One task that looks again and again whether something waits, from `start` to `stop`."""

    def __init__(self, gateway: Gateway, /, *, pause_s: float = gateway_limits.CATCH_UP_S) -> None:
        self._gateway = gateway
        self._pause_s = pause_s
        self._background = Background(self._work, name="elytron-gateway-catching-up")

    def start(self) -> None:
        """Begin to look."""
        self._background.start()

    async def stop(self) -> None:
        """End; an addition that is being sent is sent again later, under the same key."""
        await self._background.stop()

    async def _work(self) -> None:
        while True:
            try:
                if told := await self._gateway.catch_up():
                    logger.info("the upstream received %d additions that waited", told)
            except ElytronError as error:
                # It is looked again in a while; what waits is kept.
                logger.info("what waits cannot be sent to the upstream: %s", error.key)
            await asyncio.sleep(self._pause_s)
