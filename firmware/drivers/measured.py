# SPDX-License-Identifier: MIT
"""Shared by drivers: one measurement of several quantities, and Sensirion's checksums."""


class Measured:
    """A device that measures several quantities at once.

    Each quantity is one sensor of the profile, and a report reads them all. A measurement serves each quantity once. Asking
    for a quantity again starts the next measurement.
    """

    def __init__(self) -> None:
        self._values: "dict[str, float]" = {}

    def read(self, quantity: str) -> float:
        """Return one quantity of the current measurement, or of a new one."""
        if quantity not in self._values:
            self._values = {}
            self._values = self.measure()
        return self._values.pop(quantity)

    def measure(self) -> "dict[str, float]":
        """Measure all quantities. Raises OSError if the device does not answer correctly."""
        raise NotImplementedError


def crc8(data: bytes) -> int:
    """Return Sensirion's checksum: polynomial 0x31, start 0xff."""
    crc = 0xFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1) ^ 0x131 if crc & 0x80 else crc << 1
    return crc


def words(data: bytes, device: str) -> "list[int]":
    """Return the 16-bit words of an answer, in which each word is followed by its checksum."""
    for at in range(0, len(data), 3):
        if crc8(data[at : at + 2]) != data[at + 2]:
            raise OSError(device + ": checksum of the measurement is wrong")
    return [data[at] << 8 | data[at + 1] for at in range(0, len(data), 3)]
