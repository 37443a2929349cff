# SPDX-License-Identifier: MIT
"""The protocols between the modules, for the type checker and the reader. Never imported on a device."""

from typing import Callable, Protocol, Sequence

from peel_device.config import Mqtt, Wifi

Collect = Callable[[int], bytes]
Source = tuple[str, Collect, int, int]
"""An entropy source: its name, collect(n) -> n raw bytes, the number of bytes to take, and the bits they count for."""


class Files(Protocol):
    """The file operations that the application uses. `write` replaces a file and is durable when it returns."""

    def read(self, path: str) -> bytes | None: ...

    def write(self, path: str, data: bytes) -> None: ...

    def remove(self, path: str) -> None: ...

    def names(self, folder: str) -> list[str]: ...

    def make_folder(self, path: str) -> None: ...


class Clock(Protocol):
    """Milliseconds that never go back while the device runs."""

    def now(self) -> int: ...


class Wire(Protocol):
    """A byte stream that never blocks for long: a socket, a UART."""

    def receive(self, limit: int) -> bytes | None:
        """Return some bytes, None if there are none yet, or b"" if the other side has closed."""
        ...

    def send(self, data: "bytes | memoryview") -> int:
        """Take some bytes and return how many; 0 if none can be taken yet."""
        ...

    def close(self) -> None: ...


class Core(Protocol):
    """The `peelcore` module."""

    VERSION: str

    def encoder(
        self,
        flags: int,
        profile: int,
        device: int,
        width: int,
        seed: int,
        blocks: Sequence[tuple[int, int, int, int, int, int, int]],
        seal_key: bytes,
        index_key: bytes,
        cached: bool = False,
        /,
    ) -> bytearray: ...

    def drbg(self) -> bytearray: ...

    def drbg_seed(self, drbg: bytearray, entropy: bytes, /) -> None: ...

    def drbg_bytes(self, drbg: bytearray, n: int, /) -> bytes: ...

    def encode(
        self,
        out: bytearray,
        encoder: bytearray,
        drbg: bytearray,
        number: int,
        readings: list[int],
        coin_seed: bytes = ...,
        /,
    ) -> int: ...

    def hash(self, label: bytes, data: bytes, n: int, /) -> bytes: ...

    def stream(self, key: bytes, nonce: bytes, n: int, /) -> bytes: ...

    def seal(self, key: bytes, nonce: bytes, ad: bytes, text: bytes, /) -> bytes: ...

    def coin_name(self, encoder: bytearray, number: int, /) -> bytes: ...

    def coin_root(self, name: bytes, seed: bytes, /) -> bytes: ...

    def coin_open(self, name: bytes, seed: bytes, index: int, /) -> tuple[bytes, bytes]: ...


class Bus(Protocol):
    """The part of machine.I2C that drivers use."""

    def writeto(self, address: int, data: bytes, /) -> int: ...

    def readfrom(self, address: int, n: int, /) -> bytes: ...


class OneWire(Protocol):
    """The part of onewire.OneWire that drivers use."""

    def reset(self) -> bool: ...

    def writebyte(self, value: int, /) -> object: ...

    def readbyte(self) -> int: ...


class Board(Protocol):
    """One board: its pins, entropy, clock, sleep and link.

    - `dial` connects to the broker and raises OSError if it cannot. `hang_up` switches the radio off.
    - `light_sleep` returns after the given time, which the clock has counted. `deep_sleep` ends in a reboot.
    - `feed_for` lets a timer feed the watchdog for at most this long, during a call that cannot be split. 0 ends it.
    - The other methods raise BoardError if the board lacks the requested part.
    """

    name: str

    @property
    def clock(self) -> Clock: ...

    def sources(self) -> list[Source]: ...

    def unique_id(self) -> bytes: ...

    def led(self, on: bool) -> None: ...

    def start_watchdog(self, sleep: str) -> None: ...

    def feed(self) -> None: ...

    def feed_for(self, milliseconds: int) -> None: ...

    def pause(self, milliseconds: int) -> None: ...

    def light_sleep(self, milliseconds: int) -> None: ...

    def deep_sleep(self, milliseconds: int) -> None: ...

    def woke_from_sleep(self) -> bool: ...

    def reset(self) -> None: ...

    def dial(self, transport: str, mqtt: Mqtt, wifi: Wifi | None) -> Wire: ...

    def hang_up(self) -> None: ...

    def adc(self, pin: int) -> int: ...

    def internal_temperature(self) -> float: ...

    def i2c(self, bus: int, sda: int, scl: int) -> Bus: ...

    def one_wire(self, pin: int) -> OneWire: ...

    def digital(self, pin: int, pull: str, latch: bool) -> Callable[[], int]: ...
