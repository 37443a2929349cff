# SPDX-License-Identifier: MIT
"""A simulated flash: every state in which a power cut can leave a write."""

from __future__ import annotations

from collections.abc import Callable, Iterator


class MemoryFiles:
    """Files in memory."""

    def __init__(self, kept: dict[str, bytes] | None = None) -> None:
        self.kept: dict[str, bytes] = dict(kept or {})

    def read(self, path: str) -> bytes | None:
        return self.kept.get(path)

    def write(self, path: str, data: bytes) -> None:
        self.kept[path] = data

    def remove(self, path: str) -> None:
        self.kept.pop(path, None)

    def names(self, folder: str) -> list[str]:
        return [path[len(folder) + 1 :] for path in self.kept if path.startswith(folder + "/")]

    def make_folder(self, path: str) -> None:
        pass


class WitnessFiles(MemoryFiles):
    """Calls `witness` with every torn state of every write, and with the states before and after each removal."""

    def __init__(self) -> None:
        super().__init__()
        self.witness: Callable[[MemoryFiles], None] = lambda files: None
        self.cuts = 0

    def write(self, path: str, data: bytes) -> None:
        for torn in torn_contents(self.kept.get(path), data):
            state = MemoryFiles(self.kept)
            if torn is None:
                state.kept.pop(path, None)
            else:
                state.kept[path] = torn
            self._show(state)
        super().write(path, data)

    def remove(self, path: str) -> None:
        self._show(MemoryFiles(self.kept))
        super().remove(path)
        self._show(MemoryFiles(self.kept))

    def _show(self, state: MemoryFiles) -> None:
        self.cuts += 1
        self.witness(state)


def torn_contents(old: bytes | None, new: bytes) -> Iterator[bytes | None]:
    """Yield the possible contents of a file if the power goes after 0, 1, ... all bytes of a write, for each kind of tear."""
    yield old
    for done in range(len(new) + 1):
        rest = len(new) - done
        yield new[:done]
        yield new[:done] + b"\xff" * rest
        yield new[:done] + (old or b"")[done:]
        yield new[:done] + bytes((151 * (done + at) + 7) & 0xFF for at in range(rest))


class FullFiles(MemoryFiles):
    """A flash of `room` bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, path: str, data: bytes) -> None:
        used = sum(len(content) for name, content in self.kept.items() if name != path)
        if used + len(data) > self.room:
            raise OSError(28, "no space")
        super().write(path, data)


class ManualClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        return self.at
