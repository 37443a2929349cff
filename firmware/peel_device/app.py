# SPDX-License-Identifier: MIT
"""The device application: boot, then sample, randomise, store, send and rest in a loop.

The order of steps is the guarantee:

- A number is reserved and its budget spent before the coin is tossed.
- A frame is on flash before it is sent.
- A frame leaves the flash after the gateway has confirmed it (or the broker, if the bundle says so).

A power cut between two steps skips a number or repeats a frame. Neither harms privacy or the estimate.
"""

from peel_device import VERSION
from peel_device.entropy import Entropy
from peel_device.errors import EntropyError
from peel_device.ledger import Ledger, block_size
from peel_device.link import Link
from peel_device.outbox import Outbox
from peel_device.receipt import Reader
from peel_device.sensors import Outages, Sampler
from peel_device.timing import Resend, after_waking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from peel_device.config import Config
    from peel_device.interfaces import Board, Core, Files

FRAME_MAX = 16 + 4 + 205 + 8  # bytes, at width 1024
AWAKE_MS = 30000  # how long to try to empty the outbox before sleep
FINISHED_MS = 86400000  # the pause once the lifetime's numbers are used up: only a new bundle can change that
SLEEP_MAX_MS = 2000000000  # 23 days: an ESP32's deep sleep takes 31 bits; a device that wakes early sleeps again
NO_SPACE = 28  # ENOSPC, which MicroPython's errno does not name
_STEP_MS = 200


class App:
    """One device: owns the ledger, the outbox, the entropy, the sampler and the link."""

    def __init__(self, config: "Config", core: "Core", board: "Board", files: "Files", root: str) -> None:
        self._config = config
        self._core = core
        self._board = board
        self._clock = board.clock
        profile = config.profile
        # State is kept per identity: a device that is given another identity and later its old one must find its old numbers.
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
        self._outages = Outages(files, home + "/outages", config)
        self.sampler = Sampler(config, board, self._outages)
        self.link = Link(config, board, self._clock, self._entropy.random, None if by_broker else self.settle)
        self._resend = Resend(self._clock, self._entropy.random)
        self._buffer = bytearray(FRAME_MAX)
        self._began = 0
        self._due = 0
        self._awake_since = 0
        self._finished = False
        self._said_failing = ""  # the failing sensors in the last published status
        self.throttled = 0
        self.lost = 0
        self.no_reading = 0
        self.refused_receipts = 0

    def start(self) -> None:
        """Start all parts. The device reports nothing unless all of them succeed."""
        config, profile = self._config, self._config.profile
        self.outbox.start()  # first: on a full flash its frames can make room for the ledger and the seed
        woke = self._board.woke_from_sleep()
        self._with_room(lambda: self.ledger.start(config.first_number, woke))
        self._outages.start(woke)
        self._began = self.ledger.next_number
        try:
            self._with_room(lambda: self._entropy.start(config.seed.reveal(), self.ledger.next_number))
        except EntropyError:
            self.link.last_words(dict(self.birth(), state="stopped"))
            raise
        self._encoder = self._core.encoder(
            0, profile.id, config.device, profile.width, profile.seed, profile.blocks,
            config.seal_key.reveal(), config.index_key.reveal(), True,
        )  # fmt: skip
        if config.sleep == "deep" and after_waking(self._entropy.random, self.outbox.unconfirmed):
            self.outbox.send_again()
        self._board.start_watchdog(config.sleep)
        self._due = self._awake_since = self._clock.now()

    def run(self) -> None:
        """Run until the power goes."""
        while True:
            self.step()

    def step(self) -> None:
        """Run one turn of the loop: report if it is time, send waiting frames, rest."""
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
            if self.link.announce(self.birth()):  # connects even if no report was ever made
                self._said_failing = failing
        if self.link.owes_status():
            self.link.announce(self.birth())
        self.link.tend()
        self._rest()

    def report(self) -> None:
        """Make one report, if the sensors and the quota allow it, and schedule the next."""
        now = self._clock.now()
        self._due = max(now, self._due + self._config.interval_ms)
        readings = self.sampler.read(self.ledger.next_number)
        try:
            self._with_room(self._outages.store)
            if readings is None:
                self._due = now + max(self._config.interval_ms, _STEP_MS)
            else:
                self._store(now, readings)
        except OSError as error:
            self.lost += 1
            print("peel: report lost, the flash could not be written (%r)" % error)

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
        self.no_reading += self.sampler.incomplete

    def settle(self, receipt: bytes) -> None:
        """Check a received receipt and remove the frames that it settles."""
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
        """Continue above a number that a receipt confirms although no run on record has sent it: the flash is an old image.

        Frames that this run has made but not sent are dropped, as their numbers may have been used before. The receipt
        may not name the last used numbers. The outbox limit bounds how many those are, unless it overflowed.
        """
        self.outbox.settle([(self._began, self.ledger.next_number)])
        self._with_room(lambda: self.ledger.skip(number + self._config.outbox))
        self._began = self.ledger.next_number
        print("peel: the flash is an old image: number %d was already used; continuing at %d" % (number, self._began))

    def _with_room(self, action: "Callable[[], Any]") -> "Any":
        """Run an action that writes to flash. While the flash is full, drop the oldest frame (counted) and try again."""
        while True:
            try:
                return action()
            except OSError as error:
                if error.errno != NO_SPACE or not self.outbox.make_room():
                    raise

    def birth(self) -> "dict[str, Any]":
        """Return the status message. Nothing in it depends on the readings of a working sensor."""
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
            "no_reading": self.no_reading,
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
