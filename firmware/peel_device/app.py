# SPDX-License-Identifier: MIT
"""The device application: boot, then sample, randomise, store, send and rest in a loop.

The order of steps is the guarantee:

- A number is reserved and its budget spent before the coin is tossed.
- A frame is on flash before it is sent.
- A frame leaves the flash after the gateway has confirmed it (or the broker, if the bundle says so).

With a verified profile (SPEC section 13) numbers come in batches, which the gateway audits before they are used and
challenges afterwards. `coins.py` has the rules. Other profiles do not load it.

A power cut between two steps skips a number or repeats a frame. Neither harms privacy or the estimate.
"""

from peel_device import VERSION
from peel_device.coin_files import retire
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

    from peel_device.coin_messages import Messages
    from peel_device.coins import Coins
    from peel_device.config import Config
    from peel_device.interfaces import Board, Core, Files

FRAME_MAX = 16 + 4 + 205 + 8  # bytes, at width 1024
AWAKE_MS = 30000  # how long to try to empty the outbox before sleep
FINISHED_MS = 86400000  # the pause once the lifetime's numbers are used up: only a new bundle can change that
SLEEP_MAX_MS = 2000000000  # 23 days: an ESP32's deep sleep takes 31 bits; a device that wakes early sleeps again
ENDED_MS = 3600000  # the same with a verified profile, whose last reports have to be opened
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
        by_broker = config.confirm == "broker"
        self.outbox = Outbox(files, home + "/outbox", config.outbox, by_broker, board.feed)
        self._files = files
        self._coins_folder = home + "/coins"
        self.coins: "Coins | None" = None
        self._messages: "Messages | None" = None
        if profile.audits is not None:
            from peel_device.coins import Coins

            self.coins = Coins(files, self._coins_folder, core, config, self.outbox, board.feed)
        self.ledger = Ledger(
            files, home + "/ledger", self._clock, profile.epsilon_q20, profile.quota, profile.period, block,
            profile.lifetime, config.last_number, None if self.coins is None else self.coins.usable,
        )  # fmt: skip
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
        self._starved = False  # no number was approved at the last report
        self._said_failing = ""  # the failing sensors in the last published status
        self.throttled = 0
        self.lost = 0
        self.no_reading = 0
        self.refused_receipts = 0

    def start(self) -> None:
        """Start all parts. The device reports nothing unless all of them succeed."""
        config, profile = self._config, self._config.profile
        self.outbox.start()  # first: on a full flash its frames can make room for the ledger and the seed
        self._start_coins()
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
        if self.coins is not None:
            self._start_messages(self.coins, woke)
        self._board.start_watchdog(config.sleep)
        self._due = self._awake_since = self._clock.now()

    def _start_coins(self) -> None:
        """Read the batches of a verified profile, or remove those of an earlier bundle."""
        first = self._config.first_number
        if self.coins is not None:
            coins = self.coins
            self._with_room(lambda: coins.start(first, self.ledger.applied(first)))
        else:
            retire(self._files, self._coins_folder, self.outbox)

    def _start_messages(self, coins: "Coins", woke: bool) -> None:
        from peel_device.coin_messages import Messages
        from peel_device.coin_receipt import CoinReader

        coins.use(self._encoder)
        self._coin_receipts = CoinReader(self._core, self._config.receipt_key.reveal(), self._config.device)
        self._messages = Messages(self._core, self._config, coins, self._clock, self._entropy.random)
        if woke and not after_waking(self._entropy.random, 1):
            self._messages.consider_sent()

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
        if self.coins is not None and self._messages is not None:
            self._tend_coins(self.coins, self._messages)
        if self.left == 0 and not self._finished:
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
        ended = self.coins is not None and self.left == 0
        number = None if ended else self._with_room(self.ledger.take)
        if self.left == 0 and number is None:
            self._due = now + (FINISHED_MS if self.coins is None else ENDED_MS)
            return
        if number is None:
            self.throttled += 1
            self._starved = self.coins is not None and not self.coins.approved(self.ledger.next_number)
            self._due = now + (max(self._config.interval_ms, _STEP_MS) if self._starved else self.ledger.wait())
            return
        coin: "tuple[bytes, ...]" = ()
        if self.coins is not None:
            seed = self.coins.seed(number)
            if seed is None:
                raise OSError("the batch of number %d is damaged" % number)
            coin = (seed,)
        size = self._core.encode(self._buffer, self._encoder, self._entropy.drbg, number, readings, *coin)
        self.outbox.put(number, bytes(self._buffer[:size]))
        self.no_reading += self.sampler.incomplete

    def _tend_coins(self, coins: "Coins", messages: "Messages") -> None:
        """Make a batch if the reserve is low, send what the gateway needs, and report if numbers were approved."""
        if coins.wants_batch(self.ledger.next_number):
            try:
                self._with_room(lambda: coins.make_batch(self.ledger.next_number, self._entropy.random))
            except OSError as error:
                print("peel: no batch was made, the flash could not be written (%r)" % error)
        messages.send_again_if_due()
        if self.link.up or self.link.open(self.birth()):
            while messages.waiting:
                payload = messages.next()
                if payload and not self.link.send(payload):
                    return
                messages.sent()
        if self._starved and coins.approved(self.ledger.next_number):
            self._starved = False
            self._due = self._clock.now()

    def settle(self, receipt: bytes) -> None:
        """Check a received receipt and act on it."""
        if self.coins is None:
            self._settle(receipt)
            return
        try:
            self._with_room(lambda: self._settle_coins(receipt))
        except OSError as error:
            print("peel: a receipt was left for later, the flash could not be written (%r)" % error)

    def _settle_coins(self, receipt: bytes) -> None:
        """Act on a receipt with coin fields. After an OSError the receipt can be given again."""
        coins = self.coins
        assert coins is not None
        try:
            content = self._coin_receipts.read(receipt)
        except ValueError:
            self.refused_receipts += 1
            return
        if not coins.take_era(content.era):
            return
        self.outbox.settle(content.settled)
        used = coins.highest_used(content.settled)
        foreign = coins.foreign(content)
        if foreign or (used >= self._began and used > self.outbox.offered):
            last = max(used + self._config.outbox, foreign)
            coins.void_all(last)
            self._leave_behind(max(used, foreign), last)
        coins.take(content, self.ledger.next_number)

    def _settle(self, receipt: bytes) -> None:
        """Remove the frames that a receipt settles."""
        try:
            runs = self._receipts.settled(receipt)
        except ValueError:
            self.refused_receipts += 1
        else:
            self.outbox.settle(runs)
            highest = runs[-1][1]
            if highest >= self._began and highest > self.outbox.offered:
                self._leave_behind(highest, highest + self._config.outbox)

    def _leave_behind(self, number: int, last: int) -> None:
        """Continue above a number that a receipt confirms although no run on record has sent it: the flash is an old image.

        Frames that this run has made but not sent are dropped, as their numbers may have been used before. The receipt
        may not name the last used numbers. The outbox limit bounds how many those are, unless it overflowed.
        """
        self.outbox.settle([(self._began, self.ledger.next_number)])
        self._with_room(lambda: self.ledger.skip(last))
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

    @property
    def left(self) -> int | None:
        """The numbers that the lifetime still allows, None if it is unlimited; 0 also if no whole batch is left."""
        if self.coins is not None and self.coins.used_up(self.ledger.next_number):
            return 0
        return self.ledger.left

    def birth(self) -> "dict[str, Any]":
        """Return the status message. Nothing in it depends on the readings of a working sensor."""
        status = {
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
            "left": self.left,
            "entropy": self._entropy.bits,
            "refused": self._entropy.refused,
            "faults": self.link.faults,
        }
        if self.coins is not None:
            status["approved"] = self.coins.approved(self.ledger.next_number)
            status["unopened"] = self.coins.unopened(self.ledger.next_number)
        return status

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
        idle = not self.outbox.waiting and not (self._messages is not None and self._messages.waiting)
        return idle or self._clock.now() - self._awake_since > AWAKE_MS

    def _sleep(self, milliseconds: int) -> None:
        milliseconds = min(milliseconds, SLEEP_MAX_MS)
        self.link.stop()
        if self._config.sleep == "deep":
            self.outbox.note_sent()
            self.ledger.prepare_sleep(milliseconds)
            self._board.deep_sleep(milliseconds)
        self._board.light_sleep(milliseconds)
        self._awake_since = self._clock.now()
