# SPDX-License-Identifier: MIT
"""Verified coins: the device's batches of report numbers, and what it must remember about them (SPEC section 13.4).

A batch is 32 consecutive numbers with one random secret. It waits for its audit, then for its approval. Then the ledger
hands out the numbers that the audit did not reveal. The gateway challenges reported numbers, and the device opens them.
The batch closes when all its numbers are revealed, opened or given up. Then its secret is overwritten and its files are
removed. LittleFS writes a file to a new place. So an overwritten secret can no longer be read from the file system, but
it may be on the chip until its block is used again.

These rules decide, after any power cut, damage or receipt:

- Each record is on flash before a message that follows from it is sent.
- A batch exists once `next` in the state is above it. A secret above `next` was never committed and is removed.
- A batch takes one audit. A number is in one challenge, or the whole challenge is ignored.
- A damaged record voids its batch. If the state itself is lost, only a fresh bundle says where to continue.
- A void batch reports, reveals and opens nothing. Its frames leave the outbox.
- Batches below `floor` are void: those of earlier bundles, of an old flash image, and those that the gateway dropped.
- The numbers of a batch are given up once a number 1024 above its end is opened and the outbox has no frame of it.
  Reports arrive in order, so such a number was skipped by a power cut, was lost, or had no reading.

Files in the folder, each with a checksum:

- `state`: floor, next, era and approved.
- `challenge`: the newest challenge.
- `b<first>`: a batch's secret, and three bytes of each root. They detect a decayed secret before a wrong seed is sent.
- `s<first>`: a batch's era, its audit and its challenged numbers. It exists once the batch is audited.

All but `b` are written twice, to two files. A power cut during the first write leaves the old record, on which nothing
was sent. Later damage to one file leaves the other.

Flash wear per batch of 32 numbers: 6 files of up to 37 bytes and 2 of 116 bytes written, 3 removed. Per challenge: 2
files of 304 bytes, and 2 of 27 bytes for each batch that it touches.
"""

from peel_device.coin_files import BATCH, BATCH_BYTES, ROOT_PART, SECRET_BYTES, STATE, discard, first_of, overwrite
from peel_device.coin_receipt import CHALLENGE_RUNS_MAX, read_runs
from peel_device.errors import StorageError
from peel_device.kinds import table_size
from peel_device.storage import Slots, sealed, unsealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from peel_device.coin_receipt import CoinReceipt
    from peel_device.config import Config
    from peel_device.interfaces import Core, Files
    from peel_device.outbox import Outbox
    from peel_device.receipt import Run

BATCHES_MAX = 128  # at about 100 bytes of RAM each
RESERVE_MIN = 64
GIVE_UP = 1024
_ALL = 0xFFFFFFFF
_STATE_SIZES = (6, 6, 8, 6)  # floor, next, era, approved
_AUDIT_SIZES = (8, 4, 4)  # era, audit, challenged numbers
_CHALLENGE_SIZES = (8, 6, 16, 1)  # era, count, seed, runs; then the first number and the runs as in a receipt
_CHALLENGE_BYTES = sum(_CHALLENGE_SIZES) + 6 + 4 * CHALLENGE_RUNS_MAX
_INDEX_LABEL = b"peel/1 coin index"
_NUMBER_MAX = (1 << 48) - 2  # the number after it is stored too


class Doubled(Slots):
    """A record whose two copies are equal whenever `write` or `read` has returned."""

    def read(self) -> bytes | None:
        """Return the record, None if none was completed, and complete a write that a power cut has ended."""
        record = super().read()
        if record is not None and not self._alike():
            super().write(record)
        return record

    def write(self, record: bytes) -> None:
        """Replace both copies."""
        super().write(record)
        super().write(record)

    def _alike(self) -> bool:
        bodies = [self._body(self._read(slot)) for slot in (0, 1)]
        return bodies[0] is not None and bodies[1] is not None and bodies[0][-self._size :] == bodies[1][-self._size :]


class Batch:
    """A batch that is not closed. Bit j of a bitmap is the number `first` + j."""

    def __init__(self, first: int, audit: int, challenged: int) -> None:
        self.first = first
        self.audit = audit  # the revealed numbers; 0 while the batch waits for its audit
        self.challenged = challenged

    def place(self, number: int) -> int:
        """Return the bit of a number."""
        return 1 << (number - self.first)

    def covered(self, runs: "list[Run]") -> int:
        """Return the bitmap of the numbers that lie in these runs."""
        found = 0
        for first, last in runs:
            low, high = max(first - self.first, 0), min(last - self.first, BATCH - 1)
            if low <= high:
                found |= (1 << high + 1) - (1 << low)
        return found


class Challenge:
    """A challenge: its count, its seed and its runs of numbers."""

    def __init__(self, count: int, seed: bytes, runs: "list[Run]") -> None:
        self.count = count
        self.seed = seed
        self.runs = runs


class Coins:
    """The batches of a device with a verified profile."""

    def __init__(
        self,
        files: "Files",
        folder: str,
        core: "Core",
        config: "Config",
        outbox: "Outbox",
        feed: "Callable[[], None]" = lambda: None,
    ) -> None:
        profile = config.profile
        assert profile.audits is not None and profile.offline is not None and profile.bucket is not None
        self._files = files
        self._folder = folder
        self._core = core
        self._outbox = outbox
        self._feed = feed
        self._audits = profile.audits
        self._last = min(config.last_number, profile.lifetime or _NUMBER_MAX, _NUMBER_MAX)
        covered = max(profile.offline, 2 * profile.bucket)
        self._reserve = reserve_size(profile.quota, profile.period, covered, profile.audits)
        self._opening_bytes = max([opening_bytes(table_size(block)) for block in profile.blocks])
        self._encoder = bytearray()
        self._state = Doubled(files, folder + STATE, sum(_STATE_SIZES))
        self._asked = Doubled(files, folder + "/challenge", _CHALLENGE_BYTES)
        self._batches: list[Batch] = []
        self._held: "tuple[int, bytes] | None" = None  # the batch whose secret was read last
        self._floor = self._next = self._approved = self._count = self._opened = 0
        self.era = 0
        self.pending: Challenge | None = None
        """The challenge that no receipt counts as opened."""

    def start(self, first_number: int, applied: bool) -> None:
        """Read the batches, or begin at `first_number`. `applied` says that this bundle has run on this flash before."""
        self._files.make_folder(self._folder)
        try:
            record = self._state.read()
        except StorageError:
            record = None
        if record is None:
            if applied:
                raise StorageError("the state of verified coins is gone: get a fresh bundle and flash it again")
            self._floor = self._next = first_number
            self._write_state()
        else:
            self._floor, self._next, self.era, self._approved = _unpack(record, _STATE_SIZES)
            if first_number > self._floor:
                self._floor, self._next = first_number, max(self._next, first_number)
                self._write_state()
        self._load()

    def use(self, encoder: bytearray) -> None:
        """Set the encoder, which knows the question of each number."""
        self._encoder = encoder

    # Numbers

    def usable(self, start: int, count: int) -> list[int]:
        """Return up to `count` numbers from `start` on that may have a report, ascending."""
        found: list[int] = []
        for batch in self._batches:
            if batch.first + BATCH <= start or not batch.audit or batch.first > self._approved:
                continue
            for number in range(max(start, batch.first), batch.first + BATCH):
                if len(found) == count:
                    return found
                if not batch.audit & batch.place(number):
                    found.append(number)
        return found

    def approved(self, start: int) -> int:
        """Return how many numbers from `start` on may have a report."""
        return sum([_ones(self._free(batch, start)) for batch in self._batches if batch.first <= self._approved])

    def unopened(self, end: int) -> int:
        """Return how many numbers below `end` wait for a challenge or for the confirmation of their opening."""
        count = 0
        for batch in self._batches:
            if batch.audit:
                count += _ones(_ALL & ~batch.audit & ~self._free(batch, end) & ~self._opened_of(batch))
        return count

    def used_up(self, start: int) -> bool:
        """Whether no number from `start` on can ever have a report."""
        ended = max(self._next, start) + BATCH - 1 > self._last
        return ended and self.unapproved is None and not self.approved(start)

    def highest_used(self, settled: "list[Run]") -> int:
        """Return the highest settled number that had or can have a report, as far as this flash knows, or 0.

        Gateways may count revealed and void numbers as settled. No report will have such a number.
        """
        if settled[-1][1] >= self._next:
            return settled[-1][1]
        for batch in reversed(self._batches):
            bits = batch.covered(settled) & ~batch.audit
            if bits:
                return batch.first + len(bin(bits)) - 3
        return 0

    def seed(self, number: int) -> bytes | None:
        """Return the seed of a number's coin, or None if its batch is void."""
        batch = self._batch_of(number)
        record = None if batch is None else self._record(batch)
        return None if record is None else self._seed(record, number)

    # Batches

    @property
    def unapproved(self) -> Batch | None:
        """The batch that waits for its audit or its approval."""
        newest = self._batches[-1] if self._batches else None
        return newest if newest is not None and newest.first > self._approved else None

    def wants_batch(self, start: int) -> bool:
        """Whether to make another batch: none waits, and fewer numbers from `start` on are approved than the reserve."""
        return (
            self.unapproved is None
            and len(self._batches) < BATCHES_MAX
            and max(self._next, start) + BATCH - 1 <= self._last
            and self.approved(start) + BATCH - self._audits <= self._reserve
        )

    def make_batch(self, start: int, random: "Callable[[int], bytes]") -> None:
        """Make the next batch, above all others and not below `start`. It is on flash when this returns."""
        batch = Batch(max(self._next, start), 0, 0)
        secret = random(SECRET_BYTES)
        parts = b"".join([self._root(secret, batch.first + place)[:ROOT_PART] for place in range(BATCH)])
        try:
            self._files.write(self._path(batch.first), sealed(secret + parts))
        except OSError:
            self._erase(batch.first)
            raise
        before = self._next
        self._next = batch.first + BATCH
        try:
            self._write_state()
        except OSError:
            self._next = before
            raise
        self._batches.append(batch)

    def roots(self, batch: Batch) -> bytes | None:
        """Return the 32 roots of a batch, or None if it is void."""
        record = self._record(batch)
        if record is None:
            return None
        roots = []
        for place in range(BATCH):
            roots.append(self._root(record, batch.first + place))
            if not _matches(record, place, roots[-1]):
                self._void(batch)
                return None
        return b"".join(roots)

    def revealed(self, batch: Batch) -> bytes | None:
        """Return the seeds of the audited numbers of a batch, or None if it is void."""
        record = self._record(batch)
        if record is None:
            return None
        seeds = []
        for place in range(BATCH):
            if batch.audit >> place & 1:
                if not _matches(record, place, self._root(record, batch.first + place)):
                    self._void(batch)
                    return None
                seeds.append(self._seed(record, batch.first + place))
        return b"".join(seeds)

    def opening(self, number: int) -> bytes | None:
        """Return the opening that the pending challenge asks for, padded, or None if the number is revealed or void."""
        batch = self._batch_of(number)
        if batch is None or self.pending is None or not batch.challenged & batch.place(number):
            return None
        record = self._record(batch)
        if record is None:
            return None
        self._feed()
        name = self._core.coin_name(self._encoder, number)
        table = name[14] + (name[16] - 1) * name[15]
        word = self._core.hash(_INDEX_LABEL, self.pending.seed + number.to_bytes(6, "little"), 4)
        index = int.from_bytes(word, "little") * table >> 32
        opened, root = self._core.coin_open(name, self._seed(record, number), index)
        if not _matches(record, number - batch.first, root):
            self._void(batch)
            return None
        return opened + bytes(self._opening_bytes - len(opened))

    # Receipts

    def take_era(self, era: int) -> bool:
        """Return False for a receipt of an older era, which is to be ignored. A newer era voids all audited batches."""
        if era < self.era:
            return False
        if era > self.era:
            before, self.era = self.era, era
            try:
                self._write_state()
            except OSError:
                self.era = before
                raise
            self.pending, self._count, self._opened = None, 0, 0
            for batch in list(self._batches):
                if batch.audit:
                    self._void(batch)
        return True

    def foreign(self, receipt: "CoinReceipt") -> int:
        """Return the last number of a batch that the receipt names and this flash never made, or 0."""
        newest = max(receipt.approved, receipt.audit_first)
        return newest + BATCH - 1 if newest >= self._next else 0

    def take(self, receipt: "CoinReceipt", start: int) -> None:
        """Act on a receipt of the current era. Numbers from `start` on are not in use yet."""
        self._approve(receipt.approved)
        self._audit(receipt.audit_first, receipt.audit)
        if self.pending is not None and receipt.opened >= self.pending.count:
            self._opened = max(self._opened, self.pending.runs[-1][1])
            self.pending = None
        if receipt.challenge and self.pending is None and receipt.opened >= self._count:
            self._challenge(Challenge(receipt.opened + 1, receipt.seed, receipt.challenge), start)
        self._close_done()

    def void_all(self, above: int) -> None:
        """Void all batches, and continue above a number. For a flash that is an old image."""
        self._floor = self._next = min(max(self._next, above + 1), _NUMBER_MAX + 1)
        self._write_state()
        for batch in list(self._batches):
            self._void(batch)

    def _approve(self, approved: int) -> None:
        """Approve the batch that waits. Any other number says that the gateway has dropped all batches up to it."""
        if approved <= self._approved:
            return
        batch = self.unapproved
        passed = batch is not None and batch.audit and batch.first == approved
        before = self._approved, self._floor
        self._approved, self._floor = approved, self._floor if passed else approved + 1
        try:
            self._write_state()
        except OSError:
            self._approved, self._floor = before
            raise
        for each in list(self._batches):
            if each.first < self._floor:
                self._void(each)

    def _audit(self, first: int, audit: int) -> None:
        batch = self.unapproved
        if batch is None or batch.audit or batch.first != first or _ones(audit) != self._audits:
            return
        self._write_audit(batch, audit, 0)
        batch.audit = audit

    def _challenge(self, asked: Challenge, start: int) -> None:
        """Store a challenge and its numbers, if none of them was challenged before and each may be opened."""
        touched = []
        count = 0
        for batch in self._batches:
            bits = batch.covered(asked.runs)
            count += _ones(bits)
            bits &= ~batch.audit
            if not bits:
                continue
            if not batch.audit or bits & batch.challenged or bits & self._free(batch, start):
                return
            touched.append((batch, batch.challenged | bits))
        if not touched or count != sum([last + 1 - first for first, last in asked.runs]):
            return  # some numbers are in no open batch
        self._write_challenge(asked)
        for batch, challenged in touched:
            self._write_audit(batch, batch.audit, challenged)
        for batch, challenged in touched:  # after the last write: a failed one must not look like an earlier challenge
            batch.challenged = challenged
        self.pending, self._count = asked, asked.count

    def _close_done(self) -> None:
        waiting = self._outbox.numbers
        for batch in list(self._batches):
            end = batch.first + BATCH
            done = batch.audit and not _ALL & ~batch.audit & ~self._opened_of(batch)
            if not done and batch.audit and end - 1 + GIVE_UP <= self._opened:
                pending = self.pending is not None and batch.covered(self.pending.runs)
                done = not pending and not any(batch.first <= number < end for number in waiting)
            if done:
                self._void(batch)

    def _opened_of(self, batch: Batch) -> int:
        return batch.challenged & ~(batch.covered(self.pending.runs) if self.pending is not None else 0)

    def _free(self, batch: Batch, start: int) -> int:
        """Return the bitmap of the numbers from `start` on that are not revealed."""
        skipped = max(0, min(BATCH, start - batch.first))
        return _ALL & ~((1 << skipped) - 1) & ~batch.audit

    # Flash

    def _load(self) -> None:
        self._batches = []
        firsts, audited = [], []
        for name in self._files.names(self._folder):
            first = first_of(name)
            if first is not None:
                firsts.append(first)
            elif name[0] == "s" and len(name) == 15:
                audited.append(int(name[1:13], 16))
        for first in sorted(firsts):
            self._feed()
            self._load_batch(first)
        open_batches = [batch.first for batch in self._batches]
        for first in audited:
            if first not in open_batches:
                self._erase(first)
        self._load_challenge()
        # Frames of batches that are no longer open were opened or are void.
        self._outbox.discard(lambda number: number >= self._floor and self._batch_of(number) is None)

    def _load_batch(self, first: int) -> None:
        batch = Batch(first, 0, 0)
        try:
            record = self._audit_slots(first).read()
        except StorageError:
            self._void(batch)
            return
        era = self.era
        if record is not None:
            era, batch.audit, batch.challenged = _unpack(record, _AUDIT_SIZES)
        # Only the newest batch waits for its audit. An older one has lost it, and one above `next` was never committed.
        lost = not batch.audit and (first <= self._approved or first + BATCH != self._next)
        if lost or era != self.era or first < self._floor or self._record(batch) is None:
            self._void(batch)
        else:
            self._batches.append(batch)

    def _load_challenge(self) -> None:
        try:
            record = self._asked.read()
        except StorageError:
            return  # the numbers of the challenge are marked in their batches, so none is opened again
        if record is None:
            return
        at = sum(_CHALLENGE_SIZES)
        era, count, _, runs = _unpack(record, _CHALLENGE_SIZES)
        if era != self.era:
            return
        self._count = count
        self.pending = Challenge(count, record[14:30], read_runs(record, at, runs))
        for batch in self._batches:  # a power cut may have come before their own records
            challenged = batch.challenged | batch.covered(self.pending.runs) & ~batch.audit
            if batch.audit and challenged != batch.challenged:
                self._write_audit(batch, batch.audit, challenged)
                batch.challenged = challenged

    def _write_state(self) -> None:
        self._state.write(_pack((self._floor, self._next, self.era, self._approved), _STATE_SIZES))

    def _write_audit(self, batch: Batch, audit: int, challenged: int) -> None:
        self._feed()
        slots = self._audit_slots(batch.first)
        try:
            slots.read()  # for its sequence
        except StorageError:
            pass  # damaged since it was read; this run knows its content
        slots.write(_pack((self.era, audit, challenged), _AUDIT_SIZES))

    def _write_challenge(self, asked: Challenge) -> None:
        seed = int.from_bytes(asked.seed, "little")
        record = _pack((self.era, asked.count, seed, len(asked.runs)), _CHALLENGE_SIZES)
        number = asked.runs[0][0]
        record += number.to_bytes(6, "little")
        for first, last in asked.runs:
            record += _pack((first - number, last + 1 - first), (2, 2))
            number = last + 1
        self._asked.write(record + bytes(_CHALLENGE_BYTES - len(record)))

    def _audit_slots(self, first: int) -> Doubled:
        return Doubled(self._files, "%s/s%012x" % (self._folder, first), sum(_AUDIT_SIZES))

    def _record(self, batch: Batch) -> bytes | None:
        """Return the secret and the parts of the roots of a batch. A damaged record voids the batch."""
        if self._held is not None and self._held[0] == batch.first:
            return self._held[1]
        try:
            record = unsealed(self._files.read(self._path(batch.first)) or b"")
        except OSError:
            record = None  # worn flash
        if record is None or len(record) != BATCH_BYTES or record[:SECRET_BYTES] == bytes(SECRET_BYTES):
            self._void(batch)
            return None
        self._held = batch.first, record
        return record

    def _void(self, batch: Batch) -> None:
        """Close a batch: drop its frames, overwrite its secret and remove its files."""
        discard(self._outbox, batch.first)
        self._batches = [each for each in self._batches if each.first != batch.first]
        self._erase(batch.first)

    def _erase(self, first: int) -> None:
        """Overwrite a secret and remove the files of its batch. What worn flash keeps is removed at the next start."""
        self._feed()
        self._held = None
        path = self._path(first)
        overwrite(self._files, path)
        for each in (path, "%s/s%012x.0" % (self._folder, first), "%s/s%012x.1" % (self._folder, first)):
            try:
                self._files.remove(each)
            except OSError:
                pass

    def _path(self, first: int) -> str:
        return "%s/b%012x" % (self._folder, first)

    def _batch_of(self, number: int) -> Batch | None:
        for batch in self._batches:
            if batch.first <= number < batch.first + BATCH:
                return batch
        return None

    def _seed(self, secret: bytes, number: int) -> bytes:
        return self._core.stream(secret[:SECRET_BYTES], number.to_bytes(6, "little") + bytes(10), 16)

    def _root(self, secret: bytes, number: int) -> bytes:
        self._feed()  # a root takes some 20 ms on a Pico
        return self._core.coin_root(self._core.coin_name(self._encoder, number), self._seed(secret, number))


def reserve_size(quota: int, period: int, seconds: int, audits: int) -> int:
    """Return how many approved numbers a device holds: enough for so many seconds, in whole batches (SPEC section 13.4)."""
    each = BATCH - audits
    needed = max(RESERVE_MIN, -(-quota * seconds // period))
    return -(-needed // each) * each


def opening_bytes(table: int) -> int:
    """Return the size of the longest opening in a table (SPEC section 13.2)."""
    size = 14
    while table > 1:
        size += 16 * (min(4, table) - 1)
        table = -(-table // 4)
    return size


def _matches(record: bytes, place: int, root: bytes) -> bool:
    at = SECRET_BYTES + place * ROOT_PART
    return root[:ROOT_PART] == record[at : at + ROOT_PART]


def _ones(bits: int) -> int:
    return bin(bits).count("1")


def _pack(values: "tuple[int, ...]", sizes: "tuple[int, ...]") -> bytes:
    return b"".join([value.to_bytes(size, "little") for value, size in zip(values, sizes)])


def _unpack(record: bytes, sizes: "tuple[int, ...]") -> list[int]:
    values = []
    at = 0
    for size in sizes:
        values.append(int.from_bytes(record[at : at + size], "little"))
        at += size
    return values
