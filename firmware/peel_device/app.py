# SPDX-License-Identifier: MIT
"""The device: boot, then sample, randomise, store, send, rest, for ever.

The order is the promise. A number is reserved and its budget spent before the coin is tossed; a frame is on flash
before it is sent; it leaves the flash after the gateway has confirmed it (or, if the bundle says so, the broker). A power
cut between any two steps costs a number or repeats a frame, and neither harms privacy or the estimate.
"""

from peel_device import VERSION
from peel_device.entropy import Entropy
from peel_device.errors import EntropyError
from peel_device.ledger import Ledger, block_size
from peel_device.link import Link
from peel_device.outbox import Outbox
from peel_device.receipt import Reader
from peel_device.resend import Resend, after_waking
from peel_device.sampling import Sampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from peel_device.config import Config
    from peel_device.interfaces import Board, Core, Files

FRAME_MAX = 16 + 4 + 205 + 8  # bytes, at width 1024
AWAKE_MS = 30000  # before sleep, how long to try to empty the outbox
FINISHED_MS = 86400000  # how long to rest when the lifetime's numbers are used up: only a new bundle can change that
SLEEP_MAX_MS = (
    2000000000  # 23 days: an ESP32's deep sleep takes what fits into 31 bits, and whoever wakes early sleeps again
)
NO_SPACE = 28  # ENOSPC, which MicroPython's errno does not name
_STEP_MS = 200


class App:
    """One device."""

    def __init__(self, config: "Config", core: "Core", board: "Board", files: "Files", root: str) -> None:
        self._config = config
        self._core = core
        self._board = board
        self._clock = board.clock
        profile = config.profile
        # State is kept per identity: a device that becomes another one and then itself again must find its old numbers.
        home = "%s/%s-%s" % (root, config.fleet, config.name)
        files.make_folder(home)
        block = block_size(profile.quota, config.sleep == "deep")
        self.ledger = Ledger(
            files, home + "/ledger", self._clock, profile.epsilon_q20, profile.quota, profile.period, block,
            profile.lifetime, config.last_number,
        )  # fmt: skip
        by_broker = config.confirm == "broker"
        self.outbox = Outbox(files, home + "/outbox", config.outbox, by_broker, board.feed)
        self._receipts = Reader(core, config.receipt_key.reveal(), config.device)
        self._entropy = Entropy(core, board, files, root + "/seed")
        self.sampler = Sampler(config, board)
        self.link = Link(config, board, self._clock, self._entropy.random, None if by_broker else self.settle)
        self._resend = Resend(self._clock, self._entropy.random)
        self._buffer = bytearray(FRAME_MAX)
        self._began = 0
        self._due = 0
        self._awake_since = 0
        self._finished = False
        self._said_failing = ""  # what the broker has been told of a failing sensor
        self.throttled = 0
        self.lost = 0
        self.refused_receipts = 0

    def start(self) -> None:
        """Bring everything up. Nothing is reported unless all of it succeeds."""
        config, profile = self._config, self._config.profile
        self.outbox.start()  # first: on a full flash its frames make room for what cannot wait
        self._with_room(lambda: self.ledger.start(config.first_number, self._board.woke_from_sleep()))
        self._began = self.ledger.next_number
        try:
            self._with_room(lambda: self._entropy.start(config.seed.reveal(), self.ledger.next_number))
        except EntropyError:
            self.link.last_words(dict(self.birth(), state="stopped"))
            raise
        # The rule is computed here and never read from anywhere, so what the frame says is what the coin was tossed
        # with.
        rule = self._core.rule(profile.epsilon_q20, profile.mechanism.faces(profile.k))
        self._encoder = self._core.encoder(
            profile.mechanism.id, 0, profile.id, config.device, profile.k, profile.domain, profile.width, profile.seed,
            rule,
            config.seal_key.reveal(), config.index_key.reveal(), True,
        )  # fmt: skip
        if config.sleep == "deep" and after_waking(self._entropy.random, self.outbox.unconfirmed):
            self.outbox.send_again()
        self._board.start_watchdog(config.sleep)
        self._due = self._awake_since = self._clock.now()

    def run(self) -> None:
        """Work until the power goes."""
        while True:
            self.step()

    def step(self) -> None:
        """One turn of the loop: report if it is time, send what waits, rest."""
        self._board.feed()
        if self._clock.now() >= self._due:
            self.report()
        if self._resend.due(self.outbox.oldest_unconfirmed):
            self.outbox.send_again()
        self._board.led(self.outbox.waiting > 0)
        self.link.drain(self.outbox, self.birth())
        self._board.led(self.outbox.waiting > 0)
        if self.ledger.left == 0 and not self._finished:
            self._finished = self.link.announce(self.birth())
        if self.sampler.failing != self._said_failing:
            failing = self.sampler.failing
            if self.link.announce(self.birth()):  # also from the start, when no report makes it connect
                self._said_failing = failing
        if self.link.owes_status():
            self.link.announce(self.birth())
        self.link.tend()
        self._rest()

    def report(self) -> None:
        """Make one report, if the sensors and the quota allow it, and set the time of the next."""
        now = self._clock.now()
        self._due = max(now, self._due + self._config.interval_ms)
        readings = self.sampler.read()
        if readings is None:
            self._due = now + max(self._config.interval_ms, _STEP_MS)
            return
        try:
            self._store(now, readings)
        except OSError as error:
            self.lost += 1
            print("peel: report lost, the flash took no more (%r)" % error)

    def _store(self, now: int, readings: list[int]) -> None:
        number = self._with_room(self.ledger.take)
        if self.ledger.left == 0 and number is None:
            self._due = now + FINISHED_MS
            return
        if number is None:
            self.throttled += 1
            self._due = now + self.ledger.wait()
            return
        size = self._core.encode(self._buffer, self._encoder, self._entropy.drbg, number, readings)
        self.outbox.put(number, bytes(self._buffer[:size]))

    def settle(self, receipt: bytes) -> None:
        """Take what may be a receipt, and forget the frames that it settles."""
        try:
            runs = self._receipts.settled(receipt)
        except ValueError:
            self.refused_receipts += 1
        else:
            self.outbox.settle(runs)
            highest = runs[-1][1]
            if highest >= self._began and highest > self.outbox.offered:
                self._leave_behind(highest)

    def _leave_behind(self, number: int) -> None:
        """Use no number again, after a receipt for one that neither this run nor one before it has sent: the flash is
        an old image.

        What this run has made and not sent is dropped: its numbers may have been used before. The receipt may not name
        the last numbers that were used. The outbox limits how many those are, unless it was full and frames were lost.
        """
        self.outbox.settle([(self._began, self.ledger.next_number)])
        self._with_room(lambda: self.ledger.skip(number + self._config.outbox))
        self._began = self.ledger.next_number
        print("peel: the flash is an old image: number %d was used; going on at %d" % (number, self._began))

    def _with_room(self, action: "Callable[[], Any]") -> "Any":
        """Do what writes to flash; while that is full, drop the oldest frame (counted) and do it again."""
        while True:
            try:
                return action()
            except OSError as error:
                if error.errno != NO_SPACE or not self.outbox.make_room():
                    raise

    def birth(self) -> "dict[str, Any]":
        """Return what the device says of itself. Nothing here depends on what a working sensor reads."""
        return {
            "state": "online",
            "firmware": VERSION,
            "core": self._core.VERSION,
            "board": self._board.name,
            "interval_ms": self._config.interval_ms,
            "dropped": self.outbox.dropped,
            "unconfirmed": self.outbox.unconfirmed,
            "refused_receipts": self.refused_receipts,
            "lost": self.lost,
            "skipped": self.sampler.failed,
            "failing": self.sampler.failing,
            "throttled": self.throttled,
            "left": self.ledger.left,
            "entropy": self._entropy.bits,
            "refused": self._entropy.refused,
            "faults": self.link.faults,
        }

    def _rest(self) -> None:
        left = self._due - self._clock.now()
        if left <= 0:
            return
        if self._config.sleep != "none" and self._may_sleep():
            self._sleep(left)
            return
        retry = self.link.retry_in()
        if len(self.outbox) and retry:
            left = min(left, retry)
        self._board.pause(min(left, _STEP_MS))

    def _may_sleep(self) -> bool:
        return not self.outbox.waiting or self._clock.now() - self._awake_since > AWAKE_MS

    def _sleep(self, milliseconds: int) -> None:
        milliseconds = min(milliseconds, SLEEP_MAX_MS)
        self.link.stop()
        if self._config.sleep == "deep":
            self.outbox.note_sent()
            self.ledger.prepare_sleep(milliseconds)
            self._board.deep_sleep(milliseconds)
        self._board.light_sleep(milliseconds)
        self._awake_since = self._clock.now()
