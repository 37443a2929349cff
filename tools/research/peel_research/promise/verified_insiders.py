# SPDX-License-Identifier: MIT
"""Insiders against verified coins: the exact harm of each strategy, and a replay against the real engine.

An insider is a simulated device that cheats (`verified_cheat`). Its plan is that of `verified.pausing`: before each group it forges tables
or falls silent, and after the challenge it may keep the group back. Strategies differ in what they send in place of an honest message.
Each game is one device. All games of a strategy share an engine and its database.

Figures that were read before an insider was caught count as harm: `_Replaying` reads reports from the log as soon as they count.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import encode_many, index_many
from peel_core.hashing import hashed
from peel_core.kinds import CHOICE, SIGN
from peel_gateway.engine.engine import BatchReport
from peel_gateway.model.messages import Message
from peel_gateway.model.verdict import Verdict
from peel_research.promise.verified import HARMONY, SILENT, malformed_by_change
from peel_research.promise.verified_cheat import Cheat
from peel_research.promise.verified_fleet import BUCKET_SECONDS, Fleet
from peel_research.promise.verified_strategies import STRATEGIES, Hit, Insider, Unwanted

__all__ = ["Replay", "figures", "replay"]

Ints = npt.NDArray[np.int64]

GAMES = 1000
"""Devices that play a strategy in `peel bench promise`."""
_MOST_BATCHES = 16
"""Batches that a device commits to for one group, at most."""
_PER_PAYLOAD = 8
_END = 32_768
"""The upper end of a range in readings of the core."""


@dataclass(frozen=True)
class Replay:
    """The mean over all games of a strategy."""

    harm: float
    """Over a liar's."""
    standard_error: float
    exposed: int
    """Insiders that were exposed."""
    exposed_after: float | None
    """The reports about the target that counted before, on average."""
    honest_exposed: int


@dataclass
class _Target:
    """The lie in one report: the answer that it masks, the reading behind it, and which answers are wanted."""

    answer: int
    reading: int
    wanted: frozenset[int]


@dataclass
class _Player:
    """One device. `counted` and `shown` are what the insider knows, `read_counted` and `read_shown` what the log says."""

    device: Cheat
    cheats: bool
    counted: int = 0
    shown: int = 0
    """Counted reports with a wanted answer."""
    read_counted: int = 0
    read_shown: int = 0
    stopped: bool = False
    found: bool = False
    """An audit asked for a malformed table."""
    exposed_after: int | None = None
    to_forge: int = 0
    """Malformed tables that it still wants for the group."""
    forged: list[int] = field(default_factory=list)
    """The malformed tables of the group."""
    free: list[int] = field(default_factory=list)
    """The other numbers that it may use for the group."""
    targets: dict[int, _Target] = field(default_factory=dict)
    """By number, of watched reports about the target."""
    frames: dict[int, bytes] = field(default_factory=dict)
    """The reports of the group."""
    late: list[bytes] = field(default_factory=list)
    """Openings and reports that it sends after the next time bucket."""
    proof: bytes = b""
    """An opening with a wanted outcome that was accepted."""


Frames = list[tuple[_Player, bytes]]


def replay(insider: Insider, games: int, seed: int = 1) -> Replay:
    """Play a strategy on the real engine."""
    with tempfile.TemporaryDirectory() as folder:
        played = _Replaying(insider, games, Path(folder), seed)
        played.run()
        played.fleet.store.close()
    harms = np.array([_harm(insider, each) for each in played.players if each.cheats])
    exposed = [each.exposed_after for each in played.players if each.cheats and each.exposed_after is not None]
    return Replay(
        harm=float(harms.mean()),
        standard_error=float(harms.std(ddof=1)) / sqrt(len(harms)),
        exposed=len(exposed),
        exposed_after=sum(exposed) / len(exposed) if exposed else None,
        honest_exposed=sum(each.exposed_after is not None for each in played.players if not each.cheats),
    )


def _harm(insider: Insider, player: _Player) -> float:
    coin, full = insider.coin, insider.weighs_fully
    shown, others = player.read_shown, player.read_counted - player.read_shown
    total = shown * float(coin.gain) + others * float(coin.loss)
    return total / max(player.read_counted, full) / (min(insider.reports, full) / full)


class _Replaying:
    """All games of a strategy, step by step."""

    def __init__(self, insider: Insider, games: int, folder: Path, seed: int) -> None:
        self.insider = insider
        self.chance = np.random.default_rng(seed)
        self.profile = insider.profile()
        total = round(games / insider.share)
        self.fleet = Fleet(folder, total, self.profile)
        self.players = [
            _Player(Cheat(self.profile, at + 1, self.fleet.keys.of([at]), self.chance.bytes), at < games)
            for at in range(total)
        ]
        self._arrival = 0

    # ---- the game ----

    def run(self) -> None:
        """Play to the end."""
        self.fleet.back_up()
        self._play()
        if self.insider.again is not None:
            found = [each for each in self.players if each.found]
            self.insider.again(self.fleet, [each.device.device for each in found])
            for player in self.players:
                player.stopped = not player.found
                player.device.forget_batches()
            with self.fleet.store.begin() as transaction:
                self._arrival = transaction.arrival
            self._play()

    def _play(self) -> None:
        insider = self.insider
        ends = [*range(0, insider.reports, insider.group), insider.reports]
        looked_at = [turn for turn in insider.schedule if turn != "."]
        for place, (begin, end) in enumerate(pairwise(ends)):
            if "." in insider.schedule:
                self._bucket(end - begin, ".")
            self._bucket(end - begin, looked_at[place % len(looked_at)])
        self._send([(player, frame) for player in self._active() for frame in player.late])
        self._open()

    def _bucket(self, size: int, turn: str) -> None:
        """Play one time bucket: batches and their audits, reports, and once it has ended the challenge."""
        late = [(player, frame) for player in self._active() for frame in player.late]
        for player in self._active():
            plan = self.insider.policy.plan[player.counted][player.shown] if player.cheats and turn != "." else 0
            player.stopped = plan == SILENT
            player.to_forge, player.forged, player.free, player.late = max(0, int(plan)), [], [], []
        for _ in range(_MOST_BATCHES):
            short = [each for each in self._active() if each.to_forge or self._fair(each, size) is None]
            if not short:
                break
            self._batch(short)
        self._report(size, turn)
        self.fleet.now += BUCKET_SECONDS
        self._hear(self.fleet.engine.process([]))
        self._send(late)
        self._open()

    def _active(self) -> list[_Player]:
        return [each for each in self.players if not each.stopped]

    def _fair(self, player: _Player, size: int) -> list[int] | None:
        """Return the numbers about the target that complete the group; None if there are too few."""
        few = size - len(player.forged)
        found = [number for number in player.free if self._of_target(player, number)]
        return found[:few] if len(found) >= few else None

    # ---- batches ----

    def _batch(self, players: Sequence[_Player]) -> None:
        """Let each player commit to a batch, with one malformed table if it wants some, and answer the audit."""
        commitments: Frames = []
        begun: list[tuple[_Player, int, list[int]]] = []
        for player in players:
            of_target = [number for number in player.device.next_numbers if self._of_target(player, number)]
            forged = of_target[-1:] if player.to_forge else []
            first, frame = player.device.commit(forged)
            commitments.append((player, frame))
            begun.append((player, first, forged))
        self._send(commitments)
        answers: Frames = []
        for player, first, forged in begun:
            unrevealed = player.device.unrevealed(first)
            assert len(unrevealed) < len(player.device.batch_numbers(first)), "the gateway audits every batch"
            if set(forged) <= set(unrevealed):
                answers.append((player, player.device.answer_audit(first)))
                player.to_forge -= len(forged)
                player.forged += forged
                player.free += [number for number in unrevealed if number not in forged]
            else:
                player.found = player.stopped = True
                answers += [(player, frame) for frame in self._answer_hit(player, first)]
        self._send(answers)

    def _answer_hit(self, player: _Player, first: int) -> Iterator[bytes]:
        if self.insider.hit == Hit.RECOMMIT:
            yield player.device.recommit(first)
        if self.insider.hit != Hit.NOTHING:
            yield player.device.answer_audit(first)

    # ---- reports ----

    def _report(self, size: int, turn: str) -> None:
        insider, rows = self.insider, []
        for player in self._active():
            fair = self._fair(player, size)
            assert fair is not None, "a player has enough batches"
            others = self._others(player, size)
            player.frames = dict.fromkeys(sorted([*player.forged, *fair, *others], reverse=insider.descending), b"")
            rows += [(player, number) for number in player.frames]
        self._encode(rows, turn)
        waves = size if insider.descending or insider.one_by_one else 1
        for wave in range(waves):
            frames: Frames = []
            for player in self._active():
                mine = list(player.frames.items())[wave::waves]
                if waves > 1 and self._ahead(player):
                    continue
                for number, _ in mine:
                    player.device.reported(number)
                frames += [(player, frame) for _, frame in mine]
            self._send(frames)

    def _others(self, player: _Player, size: int) -> list[int]:
        """Return numbers about other attributes. As many of each are skipped as of the target, or the bets on gaps expose the device."""
        room: dict[int, int] = {}
        found = []
        for number in player.free:
            unit = self._unit(player, number) if len(self.profile.questions) > 1 else 0
            left = room.get(unit, -(-size // self.insider.targets))
            room[unit] = left - 1
            if unit >= self.insider.targets and left > 0:
                found.append(number)
        return found

    def _ahead(self, player: _Player) -> bool:
        """Return whether a player who may pause knows outcomes of this time bucket, and is ahead by them."""
        challenged = [number for number in player.device.challenged() if number in player.frames]
        return sum(self._is_wanted(player, challenged)) > len(challenged) * self.insider.coin.wanted

    def _encode(self, rows: list[tuple[_Player, int]], turn: str) -> None:
        if not rows:
            return
        numbers = np.array([number for _, number in rows], np.uint64)
        at = np.array([player.device.device - 1 for player, _ in rows])
        keys = self.fleet.keys.of(at)
        units = index_many(self.profile, at + 1, keys, numbers).astype(np.int64)
        questions = len(self.profile.questions)
        readings = self.chance.integers(-_END, _END + 1, (len(rows), questions)).astype(np.int32)
        for row, (player, number) in enumerate(rows):
            if self._of_target(player, number):
                target = self._target(int(units[row]), turn if player.cheats else "+")
                readings[row, :] = target.reading
                if turn != ".":
                    player.targets[number] = target
        seeds = np.concatenate([player.device.seeds([number]) for player, number in rows])
        frames = encode_many(
            self.profile, at + 1, keys, numbers, readings, entropy=self.chance.bytes(64), coin_seeds=seeds
        )
        for (player, number), frame in zip(rows, frames, strict=True):
            player.frames[number] = frame.tobytes()

    def _of_target(self, player: _Player, number: int) -> bool:
        if len(self.profile.questions) == 1:
            return True
        return self._unit(player, number) < self.insider.targets

    def _unit(self, player: _Player, number: int) -> int:
        return int(index_many(self.profile, [player.device.device], player.device.keys, [number])[0])

    def _target(self, unit: int, turn: str) -> _Target:
        (block,) = self.profile.blocks
        if block.form == SIGN:
            return _Target(turn == "+", _END if turn == "+" else -_END, frozenset({1}))
        if block.form == CHOICE:
            return _Target(0, 0, frozenset({0}))
        symbols = hashed(unit - block.first_unit, np.arange(block.domain), block.outcomes, block.domain)
        if self.insider.suppresses:
            wanted = frozenset(range(block.outcomes)) - {int(symbols[0])}
        else:
            wanted = frozenset({int(np.bincount(symbols[: block.domain // 2]).argmax())})
        # One hash in 6,561 maps all categories to one symbol. Then no reading has another answer.
        answer = min(wanted & set(symbols.tolist()), default=int(symbols[0]))
        return _Target(answer, int(np.flatnonzero(symbols == answer)[0]), wanted)

    # ---- openings ----

    def _open(self) -> None:
        """Answer all challenges. Each may bring the next one."""
        while True:
            frames: Frames = []
            for player in self.players:
                numbers = [] if player.stopped else player.device.new_challenge()
                if numbers:
                    frames += [(player, frame) for frame in self._answer(player, numbers)]
            if not frames:
                return
            self._send(frames)

    def _answer(self, player: _Player, numbers: list[int]) -> Sequence[bytes]:
        """Return the answer to a challenge: openings, nothing, or what the insider sends in place of them."""
        insider, policy = self.insider, self.insider.policy
        targets = [number for number in numbers if number in player.targets]
        wanted = self._is_wanted(player, targets)
        counted, shown = player.counted + len(targets), player.shown + sum(wanted)
        then, silent = policy.worth[counted][shown], policy.silent[player.counted][player.shown]
        if player.cheats and insider.keep_back and targets and then < silent - 1e-12:
            player.stopped = True
            unwanted = [number for number, good in zip(targets, wanted, strict=True) if not good]
            return [frame for number in unwanted for frame in self._instead(player, number)]
        player.counted, player.shown = counted, shown
        openings = self._openings(player, numbers)
        bad = sum(wanted) < len(targets) * insider.coin.wanted
        if player.cheats and insider.unwanted == Unwanted.LATE and bad:
            player.late = [*player.frames.values(), *openings]
            return []
        return openings

    def _openings(self, player: _Player, numbers: list[int]) -> list[bytes]:
        bodies = player.device.openings(numbers)
        player.proof = bodies[0]
        return [player.device.opened(number, body) for number, body in zip(numbers, bodies, strict=True)]

    def _instead(self, player: _Player, number: int) -> Iterator[bytes]:
        """Yield what is sent in place of an opening that is not wanted."""
        device, good = player.device, min(player.targets[number].wanted)
        outcome = (good - player.targets[number].answer + device.mask(number)) % self.insider.coin.symbols
        if self.insider.unwanted == Unwanted.OTHER_ENTRY:
            yield device.other_entry(number, outcome)
        elif self.insider.unwanted == Unwanted.OTHER_TABLE:
            yield device.other_table(number, outcome)
        elif self.insider.unwanted == Unwanted.EARLIER:
            yield device.opened(number, player.proof or bytes(self.profile.opening_bytes))

    def _is_wanted(self, player: _Player, numbers: Sequence[int]) -> list[bool]:
        """Return whether each challenged number counts as an answer that is wanted."""
        drawn = player.device.drawn(numbers) if numbers else []
        symbols = self.profile.blocks[0].outcomes
        return [
            (outcome - player.device.mask(number) + player.targets[number].answer) % symbols
            in player.targets[number].wanted
            for number, outcome in zip(numbers, drawn, strict=True)
        ]

    # ---- the gateway ----

    def _send(self, frames: Frames) -> None:
        by_player: dict[int, list[bytes]] = {}
        for player, frame in frames:
            by_player.setdefault(player.device.device, []).append(frame)
        payloads = [
            b"".join(mine[begin : begin + _PER_PAYLOAD])
            for mine in by_player.values()
            for begin in range(0, len(mine), _PER_PAYLOAD)
        ]
        if payloads:
            self._hear(self.fleet.engine.process([Message("peel", payload, self.fleet.now) for payload in payloads]))

    def _hear(self, done: BatchReport) -> None:
        """Read what counts now, note who is exposed, and deliver the receipts."""
        self._read_log()
        for each in done.exposed_devices:
            player = self.players[each.device - 1]
            player.stopped, player.exposed_after = True, player.read_counted
        for device, receipt in self.fleet.engine.receipts(done.senders) or ():
            self.players[device - 1].device.receive(receipt)

    def _read_log(self) -> None:
        with self.fleet.store.begin() as transaction:
            log, _ = transaction.events(self._arrival)
            self._arrival = transaction.arrival
        (block,) = self.profile.blocks
        rows = np.flatnonzero((log.verdict == int(Verdict.ACCEPTED)) & (log.opened == 1))
        for row in rows.tolist():
            player, number = self.players[int(log.device[row]) - 1], int(log.number[row])
            target = player.targets.get(number)
            if target is not None:
                if block.form == SIGN:
                    answer = int(log.sign[row] > 0)
                else:
                    unit = self._unit(player, number)
                    answer = int(log.index[row]) - int(self.profile.cell(unit, block.first_column))
                player.read_counted += 1
                player.read_shown += answer in target.wanted


def figures(games: int = GAMES, seed: int = 1, on_progress: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the figures of all strategies.

    A strategy that a part of the fleet plays has a fleet of twice as many devices as others have games.
    """
    found: dict[str, Any] = {}
    for place, insider in enumerate(STRATEGIES, 1):
        on_progress(f"insiders against verified coins: {place} of {len(STRATEGIES)}, {insider.name}")
        insiders = games if insider.share == 1 else round(2 * games * insider.share)
        played = replay(insider, insiders, seed)
        found[insider.name] = {
            "sentence": insider.sentence,
            "reports": insider.reports,
            "exact": round(insider.exact, 4),
            "replayed": round(played.harm, 4),
            "standard_error": round(played.standard_error, 4),
            "exposed": round(played.exposed / insiders, 3),
            "exposed_after": None if played.exposed_after is None else round(played.exposed_after, 2),
        }
        if played.honest_exposed:
            found[insider.name]["honest_exposed"] = played.honest_exposed
    return {"insiders": found, "malformed_table_by_changed_entries": malformed_by_change(HARMONY)}
