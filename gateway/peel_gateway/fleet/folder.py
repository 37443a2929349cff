# SPDX-License-Identifier: MIT
"""The fleet folder: name, master key, devices, profiles.

- `fleet.toml`: name, mark of the master key, and whether the devices are simulated
- `master.key`: 64 hexadecimal digits, mode 0600, owned by the gateway's user
- `devices.jsonl`: devices, bundles issued to them, and the audit trail of revocations
- `profiles/*.toml`: the profiles of the devices
- `template.json`: the part of a bundle that devices share: broker, Wi-Fi, sensors
- `bundles/*.json`: one per device, mode 0600
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import stat
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from peel_core import Profile, Secret, check_fleet_name
from peel_gateway.files import foreign_owner, make_private, remove_leftovers, write_atomically
from peel_gateway.fleet.device import (
    ACTIVE,
    MOST_TAGS,
    REVOKED,
    Device,
    FleetError,
    IssuedBundle,
    check_tags,
    device_label,
    first_free,
    parse_device,
    with_new_bundle,
)
from peel_gateway.fleet.directory import DeviceDirectory
from peel_gateway.fleet.directory_file import FILE_NAME, REVOKE, UNREVOKE, DirectoryFile, FleetAction, History
from peel_gateway.fleet.profiles import parsed_profile, refuse_edited, refuse_missing, refuse_unsound
from peel_gateway.model.tables import DirectoryVersion

__all__ = [
    "ACTIVE",
    "REVOKED",
    "SIMULATION_FILE",
    "Accepted",
    "Device",
    "Fleet",
    "FleetError",
    "IssuedBundle",
    "device_label",
    "key_mark",
    "parse_device",
]

SIMULATION_FILE = "simulation.sqlite"
"""In a simulated fleet's folder: the numbers that its devices have used, and the true readings."""
_MASTER_BYTES = 32
_LAST_ID = 0xFFFFFFFF
_NOTE_CHARACTERS = 200


class Accepted(NamedTuple):
    """Devices whose newest bundle is not in a folder that was restored from an old copy, by id."""

    without_bundle: list[int]
    """Registered, but heard with numbers that no bundle in the folder covers: each needs a new bundle."""
    unknown: list[int]
    """Heard but not registered: each must be enrolled again."""


def key_mark(master: bytes, fleet: str) -> str:
    """Return a hash that identifies the master key of a fleet without revealing it."""
    return hashlib.blake2b(fleet.encode(), key=master, digest_size=8, person=b"peel key mark").hexdigest()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename2 or error.filename or folder  # the second is what something was to be renamed to
        raise FleetError(
            f"{where}: cannot be written: {error.strerror}. Check the path and its permissions, then repeat the command."
        ) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: one command changes a fleet at a time."""
    path = folder / ".lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise FleetError(
            f"{path}: is a symbolic link, which could make this command write elsewhere. Remove it."
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _refuse_existing(folder: Path) -> None:
    """Raise FleetError if the folder contains a fleet or a part of one."""
    if (folder / "fleet.toml").exists():
        raise FleetError(
            f"{folder}: is a fleet already. A new master key would lock out its devices; choose another folder."
        )
    if left := _left_of_fleet(folder):
        raise FleetError(
            f"{folder}: has a {left} and no fleet.toml. If the fleet has devices, restore fleet.toml from your backup. "
            "If `peel fleet init` was interrupted, remove the folder and repeat the command"
        )


def _left_of_fleet(folder: Path) -> str:
    """Return the name of a file that only a fleet has, master key first; empty if the folder has none."""
    return next((name for name in ("master.key", FILE_NAME) if (folder / name).exists()), "")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Fleet:
    """A fleet folder. Open it with `Fleet(folder)`, make one with `Fleet.create`.

    Parameters
    ----------
    guard : callable, optional
        Called with the history of devices.jsonl before each change; raises FleetError to refuse it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], datetime] = _utc_now,
        guard: Callable[[History], object] = lambda history: None,
    ) -> None:
        self.folder = folder
        self._clock = clock
        self._guard = guard
        self.name, self._key_mark, self.simulated = self._read_about()

    @classmethod
    def create(cls, folder: Path, name: str, profiles: Sequence[Path] = (), *, simulated: bool = False) -> Fleet:
        """Make a fleet folder with a new master key. FleetError, and no change, when the folder already has one.

        Parameters
        ----------
        simulated : bool
            Whether its devices exist only in `peel simulate`. Boards and simulated devices never share a fleet: a board with the bundle
            of a simulated device would use the same report numbers, and be exposed for it.
        """
        try:
            check_fleet_name(name)
        except ValueError as error:
            raise FleetError(str(error)) from None
        refuse_unsound(folder, map(parsed_profile, profiles))
        master = secrets.token_bytes(_MASTER_BYTES)
        about = f'name = "{name}"\nkey_mark = "{key_mark(master, name)}"\n' + "simulated = true\n" * simulated
        with _writing(folder):
            for each in (folder, folder / "profiles", folder / "bundles"):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(folder):
                _refuse_existing(folder)  # under the lock: another `fleet init` may have been first
                if simulated:
                    make_private(folder / SIMULATION_FILE)
                write_atomically(
                    folder / FILE_NAME, DirectoryFile(DeviceDirectory.of([]), [], history=History().changed(0)).lines()
                )
                write_atomically(folder / "master.key", master.hex() + "\n")
                write_atomically(folder / "fleet.toml", about)  # last: with it the folder is a fleet
        fleet = cls(folder)
        for path in profiles:
            fleet.adopt_profile(path)
        return fleet

    def adopt_profile(self, path: Path) -> Profile:
        """Copy a profile into the folder under its name."""
        profile = parsed_profile(path)
        refuse_unsound(path, [profile])
        target = self.folder / "profiles" / f"{profile.name}.toml"
        if target.exists() and parsed_profile(target).id != profile.id:
            raise FleetError(f"{target}: exists and differs. Give the changed profile a new name.")
        with self.writing():
            write_atomically(target, path.read_text(encoding="utf-8-sig"), mode=0o644)
        return profile

    def devices(self) -> DeviceDirectory:
        """Return all devices, by id."""
        return self.read_directory().devices

    def audit(self) -> list[FleetAction]:
        """Return the audit trail of revocations, oldest first."""
        return self.read_directory().audit

    def read_directory(self) -> DirectoryFile:
        """Read `devices.jsonl`."""
        path = self.folder / FILE_NAME
        try:
            return DirectoryFile.read(path)
        except FileNotFoundError:
            raise FleetError(f"{path}: missing, so the gateway knows no device. Restore it from your backup.") from None
        except (OSError, ValueError, KeyError, TypeError, OverflowError, FleetError) as error:
            raise FleetError(f"{path}: cannot be read: {_said(error)}. Restore it from your backup.") from None

    def profiles(self) -> dict[str, Profile]:
        """Return all profiles, by name."""
        found: dict[str, Profile] = {}
        for path in sorted((self.folder / "profiles").glob("*.toml")):
            profile = parsed_profile(path)
            if profile.name in found:
                raise FleetError(f"{path}: a second profile named {profile.name!r}; names must differ")
            found[profile.name] = profile
        return found

    def usable_profiles(self, devices: DeviceDirectory) -> dict[str, Profile]:
        """Return all profiles, by name, after checking that they are sound, complete, and unchanged since devices got them."""
        found = self.profiles()
        where = self.folder / "profiles"
        refuse_unsound(where, found.values())
        refuse_missing(where, found, devices)
        refuse_edited(where, found, devices)
        return found

    def device(self, device: int) -> Device:
        """Return a device. Raises FleetError if it is not registered."""
        devices = self.devices()
        row = int(devices.rows([device])[0])
        if row >= 0:
            return devices[row]
        raise FleetError(f"device {device_label(device)}: not registered in {self.folder}; see `peel fleet list`")

    def add(
        self, profile: str, *, count: int = 1, ids: Sequence[int] = (), note: str = "", tags: Sequence[str] = ()
    ) -> Sequence[Device]:
        """Register devices: those with the given ids, or `count` with the next free ones."""
        with self._changing() as file:
            taken = self._free_ids(file, profile, ids, count)
            added = DeviceDirectory.alike(taken, self._new(int(taken[0]), profile, note, tags))
            file.devices = file.devices.updated(added)
        return added

    def enrol(self, profile: str, *, count: int = 1) -> Sequence[Device]:
        """Register devices and issue their first bundles: from then on the gateway has keys for them."""
        with self._changing() as file:
            taken = self._free_ids(file, profile, (), count)
            first = with_new_bundle(self._new(int(taken[0]), profile), self.profiles(), self._clock(), file.clock)
            enrolled = DeviceDirectory.alike(taken, first)
            file.devices = file.devices.updated(enrolled)
        return enrolled

    def _free_ids(self, file: DirectoryFile, profile: str, ids: Sequence[int], count: int) -> npt.NDArray[np.int64]:
        """Return ids for new devices of a profile, ascending: the given ones, or `count` free ones."""
        known = self.usable_profiles(file.devices)
        if profile not in known:
            names = ", ".join(known) or f"none; put one into {self.folder / 'profiles'}"
            raise FleetError(f"profile {profile!r}: not in this fleet; there is: {names}")
        first = file.history.last_id + 1
        free = np.unique(np.array(ids, np.int64)) if len(ids) else np.arange(first, first + count)
        clash = free[file.devices.rows(free) >= 0]
        if len(clash) or len(free) < len(ids):
            label = device_label(int(clash[0])) if len(clash) else ""
            raise FleetError(f"device {label}: registered already; ids are never reused")
        if free[-1] > _LAST_ID:
            raise FleetError("no ids are left above the largest one in use; name free ones with --id")
        return free

    def _new(self, device: int, profile: str, note: str = "", tags: Sequence[str] = ()) -> Device:
        created = self._clock().isoformat(timespec="seconds")
        return Device(id=device, profile=profile, note=_note(note), tags=check_tags(tags), created=created)

    def issue(self, ids: Sequence[int], first_number: int | None = None) -> list[Device]:
        """Record a new bundle for each device, before it is written. Its numbers begin above all that the former ones allowed.

        If the former bundle has all the numbers left in a lifetime, the time since bounds those that its device can have used. If the
        clock is behind the time in devices.jsonl, that time is unknown: then the caller must give a `first_number` from which on no
        number was used.
        """

        with self._changing() as file:
            profiles = self.usable_profiles(file.devices)
            now, seen = self._clock(), file.clock
            return _changed(
                file,
                ids,
                lambda device: with_new_bundle(device, profiles, now, seen, first_number, file.used.get(device.id, 0)),
            )

    def left(self, devices: Sequence[Device]) -> list[int | None]:
        """Return how many numbers of its lifetime each device's next bundle would get; None without a lifetime."""
        profiles = self.profiles()
        now, used = self._clock(), self.read_directory().used

        def count(device: Device) -> int | None:
            profile = profiles.get(device.profile)
            if profile is None or profile.lifetime is None:
                return None
            return max(0, profile.lifetime + 1 - first_free(device, profile, now, used.get(device.id, 0)))

        return [count(device) for device in devices]

    def bundle_path(self, device: Device) -> Path:
        """Return the path of a device's bundle."""
        return self.folder / "bundles" / f"{device.label}.json"

    def revoke(self, ids: Sequence[int], *, reason: str = "", who: str = "") -> list[Device]:
        """Refuse these devices' reports from now on."""
        return self._set_state(ids, REVOKED, REVOKE, reason, who)

    def unrevoke(self, ids: Sequence[int], *, reason: str, who: str = "") -> list[Device]:
        """Accept these devices' reports again. Raises FleetError, and changes nothing, if one of them is not revoked."""
        return self._set_state(ids, ACTIVE, UNREVOKE, reason, who)

    def _set_state(self, ids: Sequence[int], state: str, action: str, reason: str, who: str) -> list[Device]:
        """Change the state of devices and add an audit entry for each, in one write."""
        now = self._clock().isoformat(timespec="seconds")

        def change(device: Device) -> Device:
            if action == UNREVOKE and device.state != REVOKED:
                raise FleetError(
                    f"device {device.label}: is not revoked, so it cannot be unrevoked. See `peel fleet list`."
                )
            return replace(device, state=state)

        entries = [
            FleetAction(time=now, action=action, device=device_label(id_), who=who, reason=reason)
            for id_ in sorted(set(ids))
        ]
        with self._changing() as file:
            file.audit += entries
            return _changed(file, ids, change)

    def accept(self, seen: DirectoryVersion, heard: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> Accepted:
        """Make a folder that was restored from an old copy continue the devices.jsonl that a gateway has used.

        Ids go on above the highest that was given out. Numbers of a device go on above the highest that the gateway has heard of it.

        Parameters
        ----------
        seen : DirectoryVersion
            The state that the gateway has used.
        heard : int64[N]
            Ids of all devices that the gateway has heard.
        numbers : int64[N]
            The highest number that each has used.
        """
        with self._changing() as file:
            if file.history.descends_from(seen):
                raise FleetError(
                    f"{self.folder}: continues the devices.jsonl that the gateway has used, so there is nothing to accept"
                )
            profiles, now = self.usable_profiles(file.devices), self._clock()
            accepted = Accepted([], [])
            rows = file.devices.rows(heard)
            for device, number, row in zip(heard.tolist(), numbers.tolist(), rows.tolist(), strict=True):
                known = file.devices[row] if row >= 0 else None
                used = file.used.get(device, 0)
                if known and number < first_free(known, profiles[known.profile], now, used):
                    continue
                file.used[device] = max(used, number)
                (accepted.without_bundle if known else accepted.unknown).append(device)
            highest = max(seen.last_id, int(heard.max(initial=0)))
            file.history = file.history.joined(seen._replace(last_id=highest))
        return accepted

    def annotate(self, device: int, note: str) -> Device:
        """Set a device's note."""
        with self._changing() as file:
            return _changed(file, [device], lambda found: replace(found, note=_note(note)))[0]

    def tag(self, ids: Sequence[int], *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> list[Device]:
        """Add tags to devices and remove others. Raises FleetError for one to remove that none of these devices has."""
        new, old = set(check_tags(add)), set(check_tags(remove))
        if both := sorted(new & old):
            raise FleetError(f"tag {both[0]!r}: cannot be added and removed at once. Leave one of the two out.")
        with self._changing() as file:
            had = {tag for device in _registered(file, ids) for tag in device.tags}
            if absent := sorted(old - had):
                raise FleetError(
                    f"tag {absent[0]!r}: cannot be removed, because none of these devices has it. "
                    f"Their tags are: {', '.join(sorted(had)) or 'none'}."
                )
            return _changed(file, ids, lambda device: replace(device, tags=_retagged(device, new, old)))

    def master(self) -> Secret:
        """Return the master key. Raises FleetError if other users can read it, or if it is another fleet's."""
        path = self.folder / "master.key"
        try:
            with path.open("rb") as file:
                info = os.fstat(file.fileno())
                text = file.read(200)
        except OSError as error:
            raise FleetError(
                f"{path}: cannot be read: {error.strerror}. It must belong to the user who runs the gateway."
            ) from None
        if not stat.S_ISREG(info.st_mode):
            raise FleetError(f"{path}: must be a regular file. Restore it from your backup.")
        self._refuse_foreign()
        if info.st_mode & 0o077:
            mode = stat.S_IMODE(info.st_mode)
            raise FleetError(
                f"{path}: others can read it (mode {mode:04o}). Run chmod 600 {path}. If somebody may have read it, make a new fleet."
            )
        try:
            key = bytes.fromhex(text.decode("utf-8-sig").strip())
        except ValueError:
            key = b""
        if len(key) != _MASTER_BYTES:
            raise FleetError(f"{path}: must hold {2 * _MASTER_BYTES} hexadecimal digits. Restore it from your backup.")
        if key_mark(key, self.name) != self._key_mark:
            raise FleetError(
                f"{path}: is not the key of the fleet in {self.folder / 'fleet.toml'}, so all device keys would be wrong. "
                "One of the two files is damaged or belongs to another fleet. Restore it from your backup."
            )
        return Secret(key)

    def _refuse_foreign(self) -> None:
        """Raise FleetError where the master key is another user's: the gateway could not read what this process writes."""
        if why := foreign_owner(self.folder / "master.key"):
            raise FleetError(why)

    def fingerprint(self) -> tuple[tuple[str, int, int, int], ...]:
        """Return a value that changes when a file of the folder changes."""
        paths = [self.folder / "fleet.toml", self.folder / FILE_NAME, *(self.folder / "profiles").glob("*.toml")]
        marks = []
        for path in sorted(paths):
            try:
                info = path.stat()
            except OSError:
                continue
            marks.append((path.name, info.st_mtime_ns, info.st_size, info.st_ino))
        return tuple(marks)

    def _read_about(self) -> tuple[str, str, bool]:
        """Read the fleet's name, the mark of its key, and whether its devices are simulated."""
        path = self.folder / "fleet.toml"
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
            name, mark, simulated = document["name"], document["key_mark"], document.get("simulated", False)
            check_fleet_name(name)
            if not isinstance(simulated, bool):
                raise ValueError(f"simulated: must be true or false, got {simulated!r}")
        except FileNotFoundError:
            if left := _left_of_fleet(self.folder):
                raise FleetError(f"{path}: missing, and {left} is there. Restore fleet.toml from your backup") from None
            raise FleetError(
                f"{self.folder}: not a fleet folder; make one with `peel fleet init {self.folder} --name NAME`"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FleetError(f"{path}: cannot be read: {_said(error)}. Restore it from your backup.") from None
        return str(name), str(mark), simulated

    def writing(self) -> AbstractContextManager[None]:
        """Turn an OSError into a FleetError that names the file."""
        return _writing(self.folder)

    @contextmanager
    def _changing(self) -> Iterator[DirectoryFile]:
        """Hold the lock, hand out the contents of `devices.jsonl`, write them back as a new state."""
        with self.writing(), _locked(self.folder):
            self._refuse_foreign()
            for folder in (self.folder, self.folder / "profiles", self.folder / "bundles"):
                remove_leftovers(folder)
            file = self.read_directory()
            self._guard(file.history)
            yield file
            file.clock = max(file.clock, self._clock())
            file.history = file.history.changed(int(file.devices.ids.max(initial=0)))
            write_atomically(self.folder / FILE_NAME, file.lines())


def _changed(file: DirectoryFile, ids: Sequence[int], change: Callable[[Device], Device]) -> list[Device]:
    """Change devices of the file; return the changed ones. Raises FleetError if one is not registered."""
    changed = list(map(change, _registered(file, ids)))
    file.devices = file.devices.updated(DeviceDirectory.of(changed))
    return changed


def _registered(file: DirectoryFile, ids: Sequence[int]) -> list[Device]:
    """Return devices of the file by id. Raises FleetError if one is not registered."""
    wanted = sorted(set(ids))
    rows = file.devices.rows(wanted)
    missing = [id_ for id_, row in zip(wanted, rows.tolist(), strict=True) if row < 0]
    if missing:
        raise FleetError(f"device {device_label(missing[0])}: not registered; see `peel fleet list`")
    return [file.devices[row] for row in rows.tolist()]


def _note(text: str) -> str:
    if len(text) > _NOTE_CHARACTERS or not (text.isprintable()):
        raise FleetError(f"note: must have at most {_NOTE_CHARACTERS} printable characters")
    return text


def _retagged(device: Device, new: set[str], old: set[str]) -> tuple[str, ...]:
    tags = sorted({*device.tags} - old | new)
    if len(tags) > MOST_TAGS:
        raise FleetError(
            f"device {device.label}: would have {len(tags)} tags, but at most {MOST_TAGS} are allowed. "
            "Remove some with `peel fleet tag --remove`."
        )
    return tuple(tags)


def _said(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
