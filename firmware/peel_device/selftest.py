# SPDX-License-Identifier: MIT
"""Self-test on the device: known answers of the core, the board's entropy, the flash.

Flashing runs it. It leaves no files. The known answers are the first report of each mechanism in
spec/vectors/report.json.
"""

from binascii import unhexlify

from peel_device.entropy import Entropy
from peel_device.errors import EntropyError, StorageError
from peel_device.storage import Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Board, Core, Files

EPSILON_ONE = 1 << 20
RULE_ONE = 992389038
# mechanism, profile, device, k, domain, width, seed, rule, seal key, index key, entropy, readings, frame
REPORTS = (
    (
        1, 2271587234, 4259990553, 4, 0, 48, 694411955, RULE_ONE,
        "ffb5626676b5e1d29b0cb2ea36ca701a", "a89a5e86b6bac1846b9d9cf33294c128",
        "93e243b7ad53f1235eb36468a286380c88a0d572df58c03fccfbebbe4440928ade8626329c5ef4537e045a98b442477a",
        [39486, -14879, 13966, 17203],
        "1001a2ab6587194ceafd01000000000012bc9562a8d4de952ec2e3cbc1dba8cef8712d50d5e0",
    ),
    (
        2, 340283480, 980901702, 2, 0, 48, 1810750062, RULE_ONE,
        "ec33d9fdde131a905fc08687e1cfb16d", "9ca850e2fc4804866ca813d348aea6f5",
        "56debb154829c37eb3e9516d4c9087a4e510d968e84252dfebcedb07272cab370f05451aa9bebaaf8825dc9dd34003d1",
        [0],
        "100258504814465f773a010000000000e545de1404aa72116a32f60bfc60bcc3e9c22ebf699d",
    ),
    (
        3, 1637367144, 1132913507, 3, 65535, 48, 571132111, 782060560,
        "5b16594d94245e4b6366039dfceb9430", "db737bb802e5d2080b4c9eaaed5b36b5",
        "de0f381571e787f0e4d544c8c5ab4dc38b55786d7fd19aaa747a2e67db51c8913135de13f551b384f75d2dd1a12fa469",
        [24231],
        "1003683d986163e38643010000000000a01711bc6c3d539388b441b41c4bce96ed59ca42b014",
    ),
)  # fmt: skip


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
    if core.rule(EPSILON_ONE, 2) != RULE_ONE:
        return "the rule of epsilon 1 is wrong"
    for known in REPORTS:
        mechanism, profile, device, k, domain, width, seed, rule, seal_key, index_key, entropy, readings, frame = known
        drbg = core.drbg()
        core.drbg_seed(drbg, unhexlify(entropy))
        keys = unhexlify(seal_key), unhexlify(index_key)
        encoder = core.encoder(mechanism, 0, profile, device, k, domain, width, seed, rule, keys[0], keys[1], True)
        out = bytearray(64)
        size = core.encode(out, encoder, drbg, 1, readings)
        if bytes(out[:size]) != unhexlify(frame):
            return "a report of mechanism %d differs from its known answer" % mechanism
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
