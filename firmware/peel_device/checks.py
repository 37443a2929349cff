# SPDX-License-Identifier: MIT
"""Checks of single values in the bundle. Each returns the checked value or raises ConfigError with the key's name."""

from peel_device.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Check = Callable[[str, Any], Any]

_HEX = "0123456789abcdef"


class Secret:
    """Bytes that repr and str do not show, so that they appear in no log."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """Return the bytes."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(...)"


def integer(low: int, high: int) -> "Check":
    """Check for a whole number in [low, high]."""

    def check(key: str, value: "Any") -> int:
        if type(value) is not int or not low <= value <= high:
            raise ConfigError(key, "must be a whole number from %d to %d" % (low, high))
        return value

    return check


def number(key: str, value: "Any") -> "float | int":
    """Check for a finite number."""
    if type(value) not in (int, float) or value - value != 0:
        raise ConfigError(key, "must be a number")
    result: "float | int" = value
    return result


def truth(key: str, value: "Any") -> bool:
    """Check for true or false."""
    if type(value) is not bool:
        raise ConfigError(key, "must be true or false")
    return value


def text(low: int, high: int) -> "Check":
    """Check for a string of low to high characters."""

    def check(key: str, value: "Any") -> str:
        if type(value) is not str or not low <= len(value) <= high:
            raise ConfigError(key, "must be a string of %d to %d characters" % (low, high))
        return value

    return check


def one_of(choices: "tuple[str, ...]") -> "Check":
    """Check for one of a few strings."""

    def check(key: str, value: "Any") -> str:
        if type(value) is not str or value not in choices:
            raise ConfigError(key, "must be one of " + ", ".join(choices))
        return value

    return check


def _unhex(key: str, value: "Any", count: int) -> bytes:
    # The message does not contain the value: it may be a key.
    if type(value) is not str or len(value) != 2 * count or any(digit not in _HEX for digit in value):
        raise ConfigError(key, "must be %d lower-case hexadecimal digits" % (2 * count))
    return bytes([int(value[at : at + 2], 16) for at in range(0, 2 * count, 2)])


def secret_hex(count: int) -> "Check":
    """Check for secret bytes in hexadecimal."""

    def check(key: str, value: "Any") -> Secret:
        return Secret(_unhex(key, value, count))

    return check


def secret_text(key: str, value: "Any") -> Secret:
    """Check for a password."""
    checked: str = text(0, 128)(key, value)
    return Secret(checked.encode())


def identifier(key: str, value: "Any") -> int:
    """Check for a 32-bit id as eight hexadecimal digits."""
    return int.from_bytes(_unhex(key, value, 4), "big")


def fleet_name(key: str, value: "Any") -> str:
    """Check for a fleet name (SPEC section 3)."""
    allowed = "abcdefghijklmnopqrstuvwxyz"
    if type(value) is not str or not 1 <= len(value) <= 32 or value[0] not in allowed:
        raise ConfigError(key, "must be 1 to 32 characters and start with a lower-case letter")
    if any(letter not in allowed + "0123456789-" for letter in value):
        raise ConfigError(key, "may only have a-z, 0-9 and -")
    return value


def table(key: str, value: "Any") -> "dict[str, Any]":
    """Check for a JSON object."""
    if type(value) is not dict:
        raise ConfigError(key, "must be an object")
    return value


def items(key: str, value: "Any", low: int, high: int) -> "list[Any]":
    """Check for a JSON array of low to high entries."""
    if type(value) is not list or not low <= len(value) <= high:
        raise ConfigError(key, "must be a list of %d to %d entries" % (low, high))
    return value


def numbers(low: int, high: int) -> "Check":
    """Check for a list of low to high finite numbers."""

    def check(key: str, value: "Any") -> "list[Any]":
        return [number("%s[%d]" % (key, at), each) for at, each in enumerate(items(key, value, low, high))]

    return check


def texts(low: int, high: int) -> "Check":
    """Check for a list of low to high names."""
    name = text(1, 32)

    def check(key: str, value: "Any") -> "list[Any]":
        return [name("%s[%d]" % (key, at), each) for at, each in enumerate(items(key, value, low, high))]

    return check


def fields(
    where: str, value: "Any", required: "dict[str, Check]", optional: "dict[str, tuple[Check, Any]]"
) -> "dict[str, Any]":
    """Check an object's keys: all required ones, optional ones (check, default), and no others."""
    given = table(where or "bundle", value)
    prefix = where + "." if where else ""
    for key in given:
        if key not in required and key not in optional:
            raise ConfigError(prefix + key, "is not a known key: check the spelling")
    found = {}
    for key in required:
        if key not in given:
            raise ConfigError(prefix + key, "is missing")
        found[key] = required[key](prefix + key, given[key])
    for key in optional:
        check, default = optional[key]
        found[key] = check(prefix + key, given[key]) if key in given else default
    return found
