# SPDX-License-Identifier: MIT
"""The link: sends frames from the outbox to the broker at QoS 1 and receives receipts.

It publishes the birth status and sets the will, keeps the session alive and backs off after faults. A frame leaves the
outbox only after its acknowledgement or its receipt. A retry sends the same stored bytes: it spends no budget, and the
gateway recognises the duplicate.

The device subscribes before it publishes its birth. A broker handles a client's packets in order, so the retained
receipt arrives before the birth is acknowledged, and frames that it settles are not sent again. A device that wakes
from deep sleep therefore does not have to wait for a receipt.
"""

import errno
import gc
import json

from peel_device.mqtt import Client, MQTTException
from peel_device.timing import Backoff
from peel_device.transport import Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from peel_device.config import Config
    from peel_device.interfaces import Board, Clock
    from peel_device.outbox import Outbox

FRAMES_PER_MESSAGE = 8
TIMEOUT_MS = 10000
KEEPALIVE_S = 60
BACKOFF_FIRST_MS = 1000
BACKOFF_LAST_MS = 120000
QUIET_MS = 240000  # publish the status after so long, and at least an interval, without a report
STATUS_MS = 3600000  # publish the status at least this often, as its counts change
RECEIPTS_AT_ONCE = 16  # an honest gateway sends one in many seconds; more during one exchange is a flood
_FAULTS = (OSError, MQTTException, AssertionError)


class Link:
    """Keeps a session with the broker while it can, and sends the outbox through it."""

    def __init__(
        self,
        config: "Config",
        board: "Board",
        clock: "Clock",
        random: "Callable[[int], bytes]",
        receive: "Callable[[bytes], None] | None" = None,
    ) -> None:
        """`receive` is called with each message that may be a receipt. If it is None, the device does not subscribe."""
        self._config = config
        self._board = board
        self._clock = clock
        self._receive = receive
        self._received = 0
        self._backoff = Backoff(random, BACKOFF_FIRST_MS, BACKOFF_LAST_MS)
        self._topic = config.topic
        self._client: "Client | None" = None
        self._transport: "Transport | None" = None
        self._said: "dict[str, Any]" = {}
        self._retry_at = 0
        self._pinged_at = 0
        self._published_at = 0
        self._said_at = 0
        self.faults = 0

    @property
    def up(self) -> bool:
        """Whether a session is open, as far as this side knows."""
        return self._client is not None

    def drain(self, outbox: "Outbox", birth: "dict[str, Any]") -> int:
        """Send waiting frames, oldest first, connecting if necessary.

        Returns how many frames were acknowledged. Faults are counted, not raised.
        """
        sent = 0
        try:
            while len(outbox) and self._ready(birth):
                frames = outbox.unsent(FRAMES_PER_MESSAGE)
                if not frames:
                    break  # all are sent, or the waiting ones cannot be read now
                self._publish(b"".join([frame for _, frame in frames]))
                outbox.sent([number for number, _ in frames])
                sent += len(frames)
        except _FAULTS as fault:
            self._fail(fault)
        return sent

    def open(self, birth: "dict[str, Any]") -> bool:
        """Connect if necessary and if it is time to. Return whether a session is open."""
        try:
            return self._ready(birth)
        except _FAULTS as fault:
            self._fail(fault)
            return False

    def send(self, payload: bytes) -> bool:
        """Publish a payload of frames in the open session. Return whether the broker acknowledged it."""
        try:
            self._publish(payload)
            return True
        except _FAULTS as fault:
            self._fail(fault)
            return False

    def announce(self, status: "dict[str, Any]") -> bool:
        """Publish a status, connecting if necessary. Return whether the broker acknowledged it."""
        try:
            if self._client is None:
                return self._ready(status)
            self._say(status)
            return True
        except _FAULTS as fault:
            self._fail(fault)
            return False

    def owes_status(self) -> bool:
        """Whether it is time to publish the status again."""
        now = self._clock.now()
        quiet = now - self._published_at >= max(QUIET_MS, self._config.interval_ms)
        return self._client is not None and (quiet or now - self._said_at >= STATUS_MS)

    def last_words(self, status: "dict[str, Any]") -> None:
        """Publish why this run ends, if the broker can be reached now."""
        try:
            self._connect(status)
            assert self._client is not None
            self._client.disconnect()  # in good order, so that the will does not replace this status
        except _FAULTS as fault:
            print("peel: could not publish the status (%r)" % fault)
        self._client = self._transport = None
        self._board.hang_up()

    def tend(self) -> None:
        """Take receipts, keep an idle session alive, and detect a dead one."""
        if self._client is None or self._transport is None:
            return
        now = self._clock.now()
        try:
            self._listen(self._client)
            if now - self._transport.heard_at > KEEPALIVE_S * 1000:
                raise OSError("the broker has gone silent")
            if now - max(self._transport.heard_at, self._pinged_at) > KEEPALIVE_S * 500:
                self._client.ping()
                self._pinged_at = now
        except _FAULTS as fault:
            self._fail(fault)

    def _listen(self, client: Client) -> None:
        """Take messages that have arrived, up to a limit."""
        self._received = 0
        for taken in range(1, RECEIPTS_AT_ONCE + 1):
            client.check_msg()
            if self._received < taken:
                return

    def _hear(self, topic: bytes, message: bytes) -> None:
        """Handle a message. Only its tag decides whether it is a receipt, not its topic."""
        self._received += 1
        if self._received > RECEIPTS_AT_ONCE:
            raise OSError(errno.EINVAL, "more receipts than a gateway sends")
        if self._receive is not None:
            self._receive(message)

    def retry_in(self) -> int:
        """Return the milliseconds until `drain` may connect again; 0 while connected."""
        return 0 if self._client else max(0, self._retry_at - self._clock.now())

    def stop(self) -> None:
        """Publish "offline" and disconnect before sleep, so that the will does not fire."""
        try:
            if self._client is not None:
                self._say(dict(self._said, state="offline", asleep=True))
                self._client.disconnect()
        except _FAULTS as fault:
            self._fail(fault)
        self._client = self._transport = None
        self._board.hang_up()

    def _ready(self, birth: "dict[str, Any]") -> bool:
        if self._client is None and self._clock.now() >= self._retry_at:
            self._connect(birth)
        return self._client is not None

    def _connect(self, birth: "dict[str, Any]") -> None:
        gc.collect()  # so that small objects fill gaps, and TLS finds large blocks
        mqtt = self._config.mqtt
        wire = self._board.dial(self._config.transport, mqtt, self._config.wifi)
        self._transport = Transport(wire, self._board, self._clock, TIMEOUT_MS)
        name = "peel-%s-%s" % (self._config.fleet, self._config.name)
        user = mqtt.user.encode() or None
        client = Client(name, mqtt.host, mqtt.port, user, mqtt.password.reveal(), KEEPALIVE_S)
        client.set_last_will(self._topic + "status", json.dumps({"state": "offline"}), True, 1)
        client.connect_over(self._transport, self._hear)
        self._client = client
        self._received = 0
        if self._receive is not None:
            client.subscribe(self._topic + "receipt")
        self._say(birth)
        self._pinged_at = self._clock.now()
        self._backoff.reset()

    def _say(self, status: "dict[str, Any]") -> None:
        assert self._client is not None
        self._received = 0
        self._said = status
        self._client.publish_sure(self._topic + "status", json.dumps(status).encode(), True)
        self._said_at = self._published_at = self._clock.now()

    def _publish(self, payload: bytes) -> None:
        assert self._client is not None
        self._received = 0
        self._client.publish_sure(self._topic + "report", payload)
        self._published_at = self._clock.now()

    def _fail(self, fault: "BaseException") -> None:
        self.faults += 1
        if self._transport is not None:
            try:
                self._transport.abort()
            except OSError:
                pass  # it was broken already
        self._client = self._transport = None
        wait = self._backoff.next()
        self._retry_at = self._clock.now() + wait
        print("peel: link fault (%r), next attempt in %d ms" % (fault, wait))
