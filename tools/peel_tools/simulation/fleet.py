# SPDX-License-Identifier: MIT
"""The simulated fleet: devices with keys, report numbers and roles, and the payloads of devices and attackers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile, encode_many, open_many
from peel_core.kinds import SIGN
from peel_core.primitives import NO_READING
from peel_core.projection import reconstruct, reconstruction
from peel_core.topics import device_topic
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_tools.simulation.attackers import ATTACKS, Attack, Target, check_shares, target_of
from peel_tools.simulation.coins import FleetCoins
from peel_tools.simulation.piece import HONEST, Identity, Piece
from peel_tools.simulation.traces import Traces
from peel_tools.simulation.tricks import Workshop
from peel_tools.simulation.truth import Outgoing, Truth

__all__ = ["CoinLedger", "Ledger", "SimulatedFleet", "assign_roles"]

Ints = npt.NDArray[np.int64]
_BLOCK_MAX = 32
_TICK_SECONDS = 0.001
_NUMBER_MAX = 2**48 - 1


class Ledger:
    """The report numbers of the devices of one profile, taken as the firmware does: in blocks, within the quota, never twice.

    Parameters
    ----------
    reserved : int64, shape (D,)
        The numbers spent so far. A crash loses the rest of a block, like a power cut.
    now : float
        Seconds on any monotonic clock. A new device starts with a full bucket, an old one with an empty bucket.
    """

    def __init__(self, profile: Profile, reserved: Ints, now: float) -> None:
        self.block = min(_BLOCK_MAX, (profile.burst + 1) // 2)
        # The rest of a paid block counts towards the burst, too.
        self._depth = float(profile.burst - self.block + 1)
        self._rate = (profile.quota + 1 - profile.burst) / (profile.period + _TICK_SECONDS)
        self._tokens = np.where(reserved == 0, self._depth, 0.0)
        self._filled = now
        self._last = profile.lifetime or _NUMBER_MAX
        self.reserved = reserved.copy()
        self.next = reserved + 1

    def refill(self, now: float) -> None:
        """Add the tokens of the time since the last call."""
        self._tokens = np.minimum(self._depth, self._tokens + self._rate * (now - self._filled))
        self._filled = now

    def able(self, count: int) -> npt.NDArray[np.bool_]:
        """Return the devices that may take `count` numbers now, bool[D]."""
        return np.asarray((self._tokens >= self._short(count)) & (self.next + count - 1 <= self._last))

    def _short(self, count: int) -> Ints:
        return np.asarray(np.maximum(count - (self.reserved - self.next + 1), 0))

    def take(self, slots: Ints, count: int) -> Ints:
        """Take `count` numbers for each of some distinct, able devices, int64[len(slots), count]."""
        whole_blocks = -(-self._short(count)[slots] // self.block) * self.block
        payable = np.minimum(self._tokens[slots].astype(np.int64), self._last - self.reserved[slots])
        cost = np.minimum(whole_blocks, payable)
        self._tokens[slots] -= cost
        self.reserved[slots] += cost
        first = self.next[slots]
        self.next[slots] += count
        return np.asarray(first[:, None] + np.arange(count))

    def cut_power(self, slots: Ints) -> None:
        """Lose the rest of these devices' blocks."""
        self.next[slots] = self.reserved[slots] + 1


class CoinLedger(Ledger):
    """The report numbers of devices with verified coins: the approved ones, in order, within the quota."""

    def __init__(self, profile: Profile, reserved: Ints, now: float, devices: Sequence[int], coins: FleetCoins) -> None:
        super().__init__(profile, reserved, now)
        self.block = 1
        self._depth = float(profile.burst)
        self._tokens = np.where(reserved == 0, self._depth, 0.0)
        self._devices = devices
        self._coins = coins

    def able(self, count: int) -> npt.NDArray[np.bool_]:
        """Return the devices that may take `count` numbers now, bool[D]."""
        free = map(self._coins.free, self._devices)
        approved = [len(numbers) >= count and numbers[count - 1] <= self._last for numbers in free]
        return np.asarray((self._tokens >= count) & np.array(approved, np.bool_))

    def take(self, slots: Ints, count: int) -> Ints:
        """Take `count` numbers for each of some distinct, able devices, int64[len(slots), count]."""
        numbers = np.array([self._coins.take(self._devices[slot], count) for slot in slots.tolist()], np.int64)
        self._tokens[slots] -= count
        self.reserved[slots] = numbers[:, -1]
        return numbers

    def cut_power(self, slots: Ints) -> None:
        """Lose nothing: numbers are taken one by one."""


_SWITCHED_SHARE = 0.01
"""The share of reports for a network attack that is switched on and has no share."""


def assign_roles(targets: Sequence[Target], shares: Mapping[str, float], rng: np.random.Generator) -> list[str]:
    """Draw a role for each device: a device attack, or `HONEST`.

    `targets` are those of each device's profile. A share counts the devices that the attack can use. ValueError if there are not
    enough of them.
    """
    roles = [HONEST] * len(targets)
    for name, share in shares.items():
        attack = ATTACKS[name]
        if not attack.by_device:
            continue
        able = [place for place, mine in enumerate(targets) if attack.fits(mine)]
        free = [place for place in able if roles[place] == HONEST]
        wanted = round(share * len(able))
        if wanted > len(free):
            raise ValueError(f"{name}={share}: needs {wanted} devices, and only {len(free)} are left. Lower the shares")
        for place in rng.choice(free, wanted, replace=False) if wanted else ():
            roles[int(place)] = name
    return roles


@dataclass
class _Section:
    """The devices of one profile."""

    profile: Profile
    keyring: Keyring
    gamma: npt.NDArray[np.float32]
    traces: Traces
    ledger: Ledger
    roles: list[str]
    made: npt.NDArray[np.float64]
    """Reports made so far, divided by the role's effort. The device with the least is next."""
    effort: npt.NDArray[np.float64]
    claimed: Ints
    """The readings of lying sensors, Q15; -1 for the others."""

    @property
    def devices(self) -> Ints:
        return self.keyring.device_ids.astype(np.int64)


class SimulatedFleet:
    """Devices that report in turn.

    Parameters
    ----------
    snapshot : FleetSnapshot
        The fleet, of which all devices take part.
    traces : mapping
        The readings of each profile's devices, by profile name.
    shares : mapping
        Attacks by kind, with shares of devices or of reports. The truth keeps the roles once they are drawn.
    burst : int
        The reports that a device makes at once and sends in one message.
    power_cut : float
        The probability of a power cut after a burst, which loses the rest of the block of numbers.
    resend_seconds : float
        Seconds until a device resends unconfirmed messages of verified coins.
    """

    def __init__(
        self,
        snapshot: FleetSnapshot,
        traces: Mapping[str, Traces],
        truth: Truth,
        *,
        shares: Mapping[str, float],
        seed: int,
        burst: int = 1,
        power_cut: float = 0.0,
        now: float = 0.0,
        resend_seconds: float = 60.0,
    ) -> None:
        used = {device.profile for device in snapshot.devices}
        check_shares(shares, {target_of(profile) for profile in snapshot.profiles if profile.name in used})
        self._fleet = snapshot.fleet
        self._truth = truth
        self._burst = burst
        self._power_cut = power_cut
        self._network = {name: share for name, share in shares.items() if not ATTACKS[name].by_device and share > 0}
        if sum(self._network.values()) > 1:
            raise ValueError("the shares of network attacks add up to more than 1. Lower them")
        self._off: set[str] = set()
        self._run = truth.count_run()
        self._seed = seed
        self._encoded = 0
        self._enrol(snapshot, shares, seed)
        self._roles: dict[int, str] = {}
        self.coins = FleetCoins(
            self._fleet, truth, self._attack_of, seed=f"{seed}/{self._run}/coin", pause=resend_seconds
        )
        self._sections = self._divide(snapshot, traces, now)
        self.coins.restore()
        self._shop = Workshop(np.random.default_rng([seed, self._run]), _identities(snapshot))

    def _enrol(self, snapshot: FleetSnapshot, shares: Mapping[str, float], seed: int) -> None:
        known = self._truth.devices()
        profiles = {profile.name: profile for profile in snapshot.profiles}
        new = [device for device in snapshot.devices if device.id not in known]
        targets = {name: target_of(profile) for name, profile in profiles.items()}
        roles = assign_roles([targets[device.profile] for device in new], shares, np.random.default_rng(seed))
        self._truth.enrol(
            (device.id, profiles[device.profile].id, role, _patience(role, profiles[device.profile]))
            for device, role in zip(new, roles, strict=True)
        )
        played = {role for role, *_ in self._truth.devices().values()}
        asked = [name for name, share in shares.items() if ATTACKS[name].by_device and share > 0]
        self.unplayed = [name for name in asked if name not in played]
        """Requested device attacks without a device: the share is too small, or all devices got other roles earlier."""

    def _divide(self, snapshot: FleetSnapshot, traces: Mapping[str, Traces], now: float) -> list[_Section]:
        enrolled = self._truth.devices()
        ring = snapshot.keyring
        sections = []
        for place, profile in enumerate(ring.profiles):
            mine = ring.profile_of == place
            if not mine.any():
                continue
            ids, present = ring.device_ids[mine], ring.last_bundle[mine]
            first = ring.bundle_first[present].astype(np.int64)
            roles = [enrolled[int(device)][0] for device in ids]
            attacks = [ATTACKS.get(role) for role in roles]
            reserved = np.maximum([enrolled[int(device)][1] for device in ids], first - 1)
            keys = ring.keys.of(present)
            self._roles |= zip(ids.tolist(), roles, strict=True)
            if profile.verified:
                for slot, device in enumerate(ids.tolist()):
                    self.coins.add(profile, device, keys.of(np.array([slot])), int(first[slot]))
                ledger: Ledger = CoinLedger(profile, reserved, now, ids.tolist(), self.coins)
            else:
                ledger = Ledger(profile, reserved, now)
            sections.append(
                _Section(
                    profile=profile,
                    keyring=Keyring(
                        [profile], ids, first, np.zeros(len(ids), np.int32), keys, challenge_root=ring.challenge_root
                    ),
                    gamma=reconstruction(profile.seed, profile.width),
                    traces=traces[profile.name],
                    ledger=ledger,
                    roles=roles,
                    made=np.zeros(len(ids)),
                    effort=np.array([attack.effort if attack else 1.0 for attack in attacks]),
                    claimed=np.array([_claim(attack) for attack in attacks], np.int64),
                )
            )
        return sections

    @property
    def size(self) -> int:
        """The number of devices."""
        return sum(len(section.roles) for section in self._sections)

    def switch(self, name: str, on: bool) -> None:
        """Start or stop an attack. Its devices are honest while it is off. Starting a device attack recruits one more device."""
        self._truth.note_switched(name)
        self.coins.reconsider()
        if not on:
            self._off.add(name)
            return
        self._off.discard(name)
        if ATTACKS[name].by_device:
            self._recruit(ATTACKS[name])
        else:
            self._network.setdefault(name, ATTACKS[name].share or _SWITCHED_SHARE)

    def _recruit(self, attack: Attack) -> None:
        """Give an honest device this role, if one is left."""
        honest = [
            (section, slot)
            for section in self._sections
            if attack.fits(target_of(section.profile))
            for slot, role in enumerate(section.roles)
            if role == HONEST
        ]
        if not honest:
            return
        section, slot = honest[int(self._shop.rng.integers(len(honest)))]
        self._truth.turn(int(section.devices[slot]), attack.name, attack.patience_in(section.profile))
        section.roles[slot] = self._roles[int(section.devices[slot])] = attack.name
        section.effort[slot] = attack.effort
        section.claimed[slot] = _claim(attack)

    def _attack_of(self, device: int) -> Attack | None:
        """Return the attack that a device plays now, or None."""
        role = self._roles[device]
        return None if role == HONEST or role in self._off else ATTACKS[role]

    def reports(self, count: int, now: float) -> list[Outgoing]:
        """Make about `count` reports in whole bursts, and record the resulting messages in the truth.

        There are fewer if the fleet has fewer devices than bursts, or if the quota holds devices back.
        """
        bursts = max(1, count // self._burst)
        messages: list[tuple[str, int, list[Piece]]] = []
        sums: dict[int, Ints] = {}
        for section, turns in self._whose_turn(bursts, now):
            numbers = self._take(section, turns)
            pieces, readings = self._honest(section, np.repeat(turns, self._burst), numbers.ravel())
            for start in range(0, len(pieces), self._burst):
                made = pieces[start : start + self._burst]
                sent = self._attacked(section, turns[start // self._burst], made)
                if section.profile.verified:
                    self._note_coins(section.roles[turns[start // self._burst]], made, sent)
                for group in _grouped(sent):
                    rows = [piece.row for piece in group if piece.kind == HONEST]
                    if rows:
                        sums[len(messages)] = _sums(section.profile, readings[rows])
                    messages.append((self._topic(group[0].device), section.profile.id, group))
        return self._truth.intend(messages, sums)

    def _whose_turn(self, bursts: int, now: float) -> Iterator[tuple[_Section, Ints]]:
        """Distribute bursts over the sections, and in each to the devices with the fewest reports for their effort."""
        efforts = [section.effort.sum() for section in self._sections]
        parts = self._shop.rng.multinomial(bursts, np.array(efforts) / sum(efforts))
        for section, part in zip(self._sections, parts.tolist(), strict=True):
            section.ledger.refill(now)
            able = np.flatnonzero(section.ledger.able(self._burst))
            # Each device reports at most once per round, so a long round would even out the efforts.
            part = min(part, ceil(section.effort.sum() / section.effort.max()))
            if part and len(able):
                order = np.argsort(section.made[able], kind="stable")
                yield section, able[order[:part]]

    def _take(self, section: _Section, turns: Ints) -> Ints:
        before = section.ledger.reserved[turns]
        numbers = section.ledger.take(turns, self._burst)
        section.made[turns] += self._burst / section.effort[turns]
        after = section.ledger.reserved[turns]
        self._truth.reserve(section.devices[turns][after > before], after[after > before])
        if self._power_cut:
            section.ledger.cut_power(turns[self._shop.rng.random(len(turns)) < self._power_cut])
        return numbers

    def _honest(self, section: _Section, slots: Ints, numbers: Ints) -> tuple[list[Piece], npt.NDArray[np.int32]]:
        """Return the pieces that the real encoder makes, and their readings."""
        devices = section.devices[slots]
        readings = section.traces.readings(devices, numbers)
        lying = np.flatnonzero(section.claimed[slots] >= 0)
        signs = np.flatnonzero([question.form == SIGN for question in section.profile.questions])
        readings[lying[:, None], signs] = section.claimed[slots[lying], None]
        ring = section.keyring
        verified = section.profile.verified
        frames = encode_many(
            section.profile,
            devices,
            ring.keys.of(slots),
            numbers,
            readings,
            entropy=self._entropy(),
            coin_seeds=self.coins.seeds(devices.tolist(), numbers.tolist()) if verified else None,
        )
        payloads = [frame.tobytes() for frame in frames]
        opened = open_many(ring, payloads)
        index, sign, _ = reconstruct(section.gamma, opened.trits)
        unit = opened.unit.astype(np.int64)
        values = readings[np.arange(len(index)), section.profile.question(unit)]
        columns = zip(
            devices.tolist(),
            numbers.tolist(),
            slots.tolist(),
            section.profile.cell(unit, index).tolist(),
            index.tolist(),
            sign.tolist(),
            values.tolist(),
            payloads,
            strict=True,
        )
        pieces = [
            Piece(
                device, number, section.roles[slot], False, cell, place, face, value, frame, row,
                opened=not verified or value == NO_READING,
            )
            for row, (device, number, slot, cell, place, face, value, frame) in enumerate(columns)
        ]  # fmt: skip
        return pieces, readings

    def _note_coins(self, role: str, made: Sequence[Piece], sent: Sequence[Piece]) -> None:
        """Note the reports that a gateway may challenge."""
        valid = [piece for piece in sent if not piece.bad]
        for piece in valid:
            self.coins.sent(piece)
        challenged = {piece.number for piece in valid if not piece.opened}
        for piece in made:
            # A device may send a report later, the network does not.
            if piece.opened or (role == HONEST and piece.number not in challenged):
                self.coins.lost(piece.device, piece.number)

    def _entropy(self) -> bytes:
        """Return the seed of the next coins. Simulated coins are repeatable; a real device's are not."""
        self._encoded += 1
        return hashlib.sha256(f"{self._seed}/{self._run}/{self._encoded}".encode()).digest()

    def _attacked(self, section: _Section, slot: int, pieces: Sequence[Piece]) -> list[Piece]:
        role = section.roles[slot]
        if role in self._off:
            return list(pieces)
        if role != HONEST:
            return [out for piece in pieces for out in ATTACKS[role].transform(piece, self._shop)]
        network = {name: share for name, share in self._network.items() if name not in self._off}
        if not network:
            return list(pieces)
        edges = np.cumsum(list(network.values()))
        kinds = [*(ATTACKS[name].transform for name in network), lambda piece, shop: [piece]]
        draws = np.searchsorted(edges, self._shop.rng.random(len(pieces)), side="right")
        return [
            out for piece, draw in zip(pieces, draws.tolist(), strict=True) for out in kinds[draw](piece, self._shop)
        ]

    def _topic(self, device: int) -> str:
        return device_topic(self._fleet, device, "report")


def _patience(role: str, profile: Profile) -> int | None:
    return None if role == HONEST else ATTACKS[role].patience_in(profile)


def _claim(attack: Attack | None) -> int:
    return attack.reading if attack and attack.reading is not None else -1


def _identities(snapshot: FleetSnapshot) -> dict[int, Identity]:
    ring = snapshot.keyring
    keys = ring.keys.of(ring.last_bundle)
    rows = zip(ring.device_ids.tolist(), ring.profile_of.tolist(), keys.seal, keys.index, strict=True)
    return {
        device: Identity(device, ring.profiles[place], seal_key.tobytes(), index_key.tobytes())
        for device, place, seal_key, index_key in rows
    }


def _grouped(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Group pieces into payloads in which a reader can find every piece."""
    group: list[Piece] = []
    for piece in pieces:
        if piece.alone and group:
            yield group
            group = []
        group.append(piece)
        if piece.alone or piece.last:
            yield group
            group = []
    if group:
        yield group


def _sums(profile: Profile, readings: npt.NDArray[np.int32]) -> Ints:
    """Return what readings add to the truth as (statistic, amount), int64[P, 2]: sums of Q15, or counts of categories."""
    parts = []
    for block in profile.blocks:
        mine = readings[:, block.first_question : block.first_question + block.questions]
        if block.form == SIGN:
            places, amounts = np.arange(block.questions), mine.sum(axis=0, dtype=np.int64)
        else:
            places, amounts = np.unique(mine, return_counts=True)
        parts.append(np.stack([block.first_statistic + places, amounts], axis=1).astype(np.int64))
    return np.concatenate(parts)
