# SPDX-License-Identifier: MIT
"""Self-test on the device: known answers of the core, the board's entropy, the flash.

Flashing runs it. It leaves no files. The known answers are reports of
spec/vectors/report.json: one of each form, and one of a mixed profile. A coin of spec/vectors/coin_opening.json follows.
"""

from binascii import unhexlify

from peel_device.entropy import Entropy
from peel_device.errors import EntropyError, StorageError
from peel_device.storage import Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Board, Core, Files

# blocks, profile, device, width, seed, seal key, index key, entropy, readings, frame
REPORTS = (
    (
        [(1, 1, 4, 1, 0, 8, 3)],
        2271587234, 4259990553, 48, 694411955,
        "ffb5626676b5e1d29b0cb2ea36ca701a", "a89a5e86b6bac1846b9d9cf33294c128",
        "2cbb1f4609b09dc48ddefa40ca2f55e56203a29d2605758452285c2e3d69632d1df66ad2428755239817191963ab8cab",
        [-33906, -10262, 36565, 25118],
        "1000a2ab6587194ceafd010000000000e457d5d5968b39980a4eac5cf6486275d5534e040343",
    ),
    (
        [(2, 1, 1, 2, 0, 8, 3)],
        340283480, 980901702, 48, 1810750062,
        "ec33d9fdde131a905fc08687e1cfb16d", "9ca850e2fc4804866ca813d348aea6f5",
        "c8806301e0d2b37af83e4feb504f09d042341b7f462baaa5962a8a0dbd7491ae9b6fbb1a2ec9ed353f8c3d099909ba79",
        [1],
        "100058504814465f773a010000000000fe28235a5c2526669e5d65ff7330e2c0c8100eceb25a",
    ),
    (
        [(3, 1, 1, 3, 65535, 8, 3)],
        1637367144, 1132913507, 48, 571132111,
        "5b16594d94245e4b6366039dfceb9430", "db737bb802e5d2080b4c9eaaed5b36b5",
        "4820a1012902c7bafc995243c0770ae47e90a87e401140db901d5a344e496962c82c4b70a2d37aaaf527e0a3cbd3db17",
        [4695],
        "1000683d986163e3864301000000000099aada7562f0cb71bd1f19e96d299e890fd23b741908",
    ),
    (
        [(1, 2, 3, 1, 0, 3, 1), (2, 1, 1, 4, 0, 8, 3), (1, 1, 2, 1, 0, 8, 3), (3, 16, 1, 3, 500, 8, 3)],
        122660751, 1420073946, 48, 2587539617,
        "e9318d222e7f71d523a0830b714ee227", "692fd80d0737f687b8d2237ee9bf94fb",
        "0db799d813cd5c83a2c23066e5dde374a009883bced5f2c1103639f38a05baee3f8c8c5e1d4499a0d38ac71effdaabab",
        [-29184, 28765, 35917, 1, 34938, 32649, 9],
        "10008fa74f07da9ba454010000000000246bac4087583c00c5eb3c450622fd3bd6e2dbd7f6db",
    ),
)  # fmt: skip

# name, seed, index, opening, root
COIN = (
    "c2401d6b78563412e90300000000020102000000",
    "8773e873213b027dc5afe9d42d0d2c62",
    1,
    "01b0902717ded2cb5bfd91939fc6aaa304a1df0ffd3e25fa4c8b5f17b6311f91dd0dc0317bc2645edfbc81911901",
    "26856eea7fcf80767c411b7ac3f068cb",
)


class _Memory:
    """Files in RAM: the test's entropy must not touch the device's seed."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        return self._kept.get(path)

    def write(self, path: str, data: bytes) -> None:
        self._kept[path] = data

    def remove(self, path: str) -> None:
        self._kept.pop(path, None)

    def names(self, folder: str) -> list[str]:
        return list(self._kept)

    def make_folder(self, path: str) -> None:
        pass


def check_core(core: "Core") -> str:
    """Compare the core with known answers. Return the problem, or "" if there is no problem."""
    for known in REPORTS:
        blocks, profile, device, width, seed, seal_key, index_key, entropy, readings, frame = known
        drbg = core.drbg()
        core.drbg_seed(drbg, unhexlify(entropy))
        keys = unhexlify(seal_key), unhexlify(index_key)
        encoder = core.encoder(0, profile, device, width, seed, blocks, keys[0], keys[1], True)
        out = bytearray(64)
        size = core.encode(out, encoder, drbg, 1, readings)
        if bytes(out[:size]) != unhexlify(frame):
            return "a report of form %d differs from its known answer" % blocks[0][0]
    name, coin_seed, index, opening, root = COIN
    if core.coin_open(unhexlify(name), unhexlify(coin_seed), index) != (unhexlify(opening), unhexlify(root)):
        return "the opening of a verified coin differs from its known answer"
    return ""


def check_entropy(core: "Core", board: "Board") -> str:
    """Check that the board's sources suffice without a stored seed. Return the problem or ""."""
    entropy = Entropy(core, board, _Memory(), "seed")
    try:
        entropy.start(b"", 1)
    except EntropyError as error:
        return str(error)
    print("peel: entropy %d bits, refused: %s" % (entropy.bits, ", ".join(entropy.refused) or "none"))
    return ""


def check_flash(files: "Files", root: str) -> str:
    """Check that a record can be written and read back. Return the problem or ""."""
    files.make_folder(root)
    path = root + "/selftest"
    try:
        for round_number in (1, 2):
            record = bytes([round_number] * 8)
            Slots(files, path, 8).write(record)
            if Slots(files, path, 8).read() != record:
                return "the flash reads back something other than what was written"
            files.remove(path + ".1")
    except (OSError, StorageError) as error:
        return "the flash cannot be written (%r)" % error
    finally:
        files.remove(path + ".0")
        files.remove(path + ".1")
    return ""


def run(core: "Core", board: "Board", files: "Files", root: str) -> bool:
    """Run all checks. Print one line for each, then the result."""
    passed = True
    for name, problem in (
        ("core", check_core(core)),
        ("entropy", check_entropy(core, board)),
        ("flash", check_flash(files, root)),
    ):
        print("peel: selftest %s: %s" % (name, problem or "ok"))
        passed = passed and not problem
    print("peel: selftest " + ("passed" if passed else "FAILED"))
    return passed
