# SPDX-License-Identifier: MIT
"""Provisioning: turn a board with MicroPython into a device of a fleet."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from peel_tools.boards.table import Board
from peel_tools.flashing import FlashError
from peel_tools.flashing.bundles import (
    BundleError,
    bundle_command,
    check_bundle,
    check_history,
    fresh_bundle_advice,
    note_provisioned,
    why_missing,
)
from peel_tools.flashing.device_files import (
    Copy,
    Sources,
    application,
    check_room,
    folders,
    outbox_blocks,
    outdated,
    own_modules,
    room,
)
from peel_tools.flashing.remote import Remote, check_board, probe

__all__ = ["preview", "provision"]

_REBOOT_SECONDS = 20.0

_DIGESTS = """
import json, os, hashlib
from binascii import hexlify
def digest(path):
    hashed, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while True:
            part = file.read(512)
            if not part:
                return [size, hexlify(hashed.digest()).decode()]
            hashed.update(part)
            size += len(part)
found = {{}}
for path in {paths!r}:
    try:
        found[path] = digest(path)
    except OSError:
        pass
print(json.dumps(found))
"""

# Files of an earlier run of the same device. firmware/peel_device/app.py has the layout.
_STATE = """
import json, os
def names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []
home = {home!r}
print(json.dumps([any([name.startswith("ledger.") for name in names(home)]), len(names(home + "/outbox"))]))
"""

# A running device's watchdog cannot be stopped. Without main.py the application does not start after the reset.
_STAND_ASIDE = """
import os
try:
    os.remove("main.py")
    print("true")
except OSError:
    print("false")
"""

_SELFTEST = """
import main, peel_load
from peel_device import selftest
from peel_device.storage import FlashFiles
files = FlashFiles()
settings = main.read_bundle(files)
board = main.find_board(settings.board)
selftest.run(peel_load.load(), board, files, main.ROOT)
"""


def provision(
    remote: Remote,
    board: Board,
    bundle: Path,
    sources: Sources,
    say: Callable[[str], None],
    *,
    ca: Path | None,
    files: Sequence[Path] = (),
    dry_run: bool,
) -> None:
    """Check, copy, verify, test and start a device; print each step. With dry_run only read."""
    settings = _read_bundle(bundle, board, ca)
    facts = probe(remote)
    say(f"found {facts.machine or facts.platform}, MicroPython {facts.release}, native code: {facts.architecture}")
    check_board(facts, board)
    copies = application(board, sources, core=sources.core(facts), bundle=bundle, ca=ca, files=files)
    _check_own_modules(remote, settings, files)
    changed = outdated(copies, _present(remote, copies))
    has_ledger, frames = remote.ask(_STATE.format(home=f"peel/{settings['fleet']}-{settings['device']}"))
    check_history(bundle, has_ledger)
    needed = check_room(changed, facts.free, outbox_blocks(settings, frames))
    say(f"device {settings['device']} of fleet {settings['fleet']}: {len(copies)} files, {len(changed)} to copy")
    say(f"flash: {needed // 1024} KiB needed of {facts.free // 1024} KiB free")
    _list(changed, say)
    if dry_run:
        say("dry run: nothing was changed")
        return
    _stop_application(remote)
    _copy(remote, copies[:-1], changed)
    note_provisioned(bundle)  # from here on a boot would use it
    _copy(remote, copies[-1:], copies[-1:])
    _verify(remote, copies)
    say("copied and verified by reading back")
    _selftest(remote, say)
    remote.reset()
    say("started")


def preview(
    board: Board,
    bundle: Path,
    sources: Sources,
    say: Callable[[str], None],
    *,
    ca: Path | None,
    files: Sequence[Path] = (),
) -> None:
    """Print what provisioning would copy onto an empty board of this kind. No board is needed."""
    settings = _read_bundle(bundle, board, ca)
    module = board.usual_module
    copies = application(board, sources, core=[sources.native(module)], bundle=bundle, ca=ca, files=files)
    say(
        f"device {settings['device']} of fleet {settings['fleet']}: {len(copies)} files for a {board.title} with the native module {module}"
    )
    _list(copies, say)
    for name in own_modules(settings, files):
        say(f"sensors: module {name} must be on the board already, or be given with --file {name}.py")
    say(f"flash: {room(copies, outbox_blocks(settings)) // 1024} KiB needed")
    say("dry run: nothing was changed. With --port the board is read, too")


def _list(copies: Sequence[Copy], say: Callable[[str], None]) -> None:
    for copy in copies:
        say(f"  {copy.target:<26} {copy.size:>6} bytes  {'holds keys' if copy.secret else 'sha256 ' + copy.digest}")


def _read_bundle(bundle: Path, board: Board, ca: Path | None) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = json.loads(bundle.read_bytes())
    except FileNotFoundError:
        raise FlashError(why_missing(bundle)) from None
    except OSError as error:
        raise FlashError(f"{bundle}: cannot be read: {error.strerror}. Check its owner and mode") from None
    except ValueError:
        raise FlashError(f"{bundle}: is not JSON. {fresh_bundle_advice(bundle)}") from None
    if not isinstance(settings, dict):
        raise FlashError(f"{bundle}: is not a bundle. {fresh_bundle_advice(bundle)}")
    named = settings.get("board", board.name)
    if named != board.name:
        raise FlashError(
            f"{bundle}: was made for board {named!r}, not {board.name!r}. Give --board {named}, or correct the template, then "
            f"write the bundle again: `{bundle_command(bundle)}`"
        )
    try:
        check_bundle({**settings, "board": board.name})
    except BundleError as error:
        raise FlashError(
            f"{bundle}: {error}. Correct the template, then write the bundle again: `{bundle_command(bundle)}`"
        ) from None
    wanted = settings.get("mqtt", {}).get("ca", "")
    if wanted and (ca is None or ca.name != wanted):
        raise FlashError(f"{bundle}: mqtt.ca is {wanted}. Give that file with --ca, in DER form")
    return settings


def _present(remote: Remote, copies: Sequence[Copy]) -> dict[str, list[object]]:
    return _digests(remote, [copy.target for copy in copies])


def _digests(remote: Remote, paths: Sequence[str]) -> dict[str, list[object]]:
    found: dict[str, list[object]] = remote.ask(_DIGESTS.format(paths=list(paths)))
    return found


def _check_own_modules(remote: Remote, settings: dict[str, Any], files: Sequence[Path]) -> None:
    for name in own_modules(settings, files):
        if not _digests(remote, [f"{name}.py", f"{name}.mpy", f"lib/{name}.py", f"lib/{name}.mpy"]):
            raise FlashError(f"sensors: module {name} is not on the board. Give it with --file {name}.py")


def _stop_application(remote: Remote) -> None:
    if not remote.ask(_STAND_ASIDE):
        return
    remote.reset()
    deadline = time.monotonic() + _REBOOT_SECONDS
    while True:
        time.sleep(1)
        try:
            remote.execute("pass")
            return
        except FlashError:
            if time.monotonic() > deadline:
                raise


def _copy(remote: Remote, copies: Sequence[Copy], changed: Sequence[Copy]) -> None:
    for folder in folders(copies):
        remote.make_folder(folder)
    wanted = [copy for copy in changed if copy in copies]
    for folder, group in itertools.groupby(wanted, lambda copy: copy.target.rpartition("/")[0]):
        members = list(group)
        together = [copy.source for copy in members if copy.source.name == copy.target.rpartition("/")[2]]
        for copy in members:
            if copy.source not in together:
                remote.copy([copy.source], copy.target)
        if together:
            remote.copy(together, folder + "/")


def _verify(remote: Remote, copies: Sequence[Copy]) -> None:
    wrong = outdated(copies, _present(remote, copies))
    if wrong:
        raise FlashError(
            f"the board read back other bytes for: {', '.join(copy.target for copy in wrong)}. "
            "Its flash may be full or worn. Try again, then try another board"
        )


def _selftest(remote: Remote, say: Callable[[str], None]) -> None:
    output = remote.execute(_SELFTEST)
    for line in output.splitlines():
        if line.startswith("peel: "):
            say(line.strip())
    if "peel: selftest passed" not in output:
        raise FlashError("the self-test on the device failed, and the device was not started. The lines above say why")
