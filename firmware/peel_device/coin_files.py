# SPDX-License-Identifier: MIT
"""Files of verified coins that every device must be able to remove: an earlier bundle may have left them."""

from peel_device.storage import sealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Files
    from peel_device.outbox import Outbox

BATCH = 32
SECRET_BYTES = 16
ROOT_PART = 3
BATCH_BYTES = SECRET_BYTES + BATCH * ROOT_PART
STATE = "/state"


def first_of(name: str) -> int | None:
    """Return the first number of the batch whose secret has this file name, or None for another file."""
    return int(name[1:], 16) if name[0] == "b" and len(name) == 13 else None


def overwrite(files: "Files", path: str) -> None:
    """Overwrite a secret with zeros."""
    try:
        if files.read(path) is not None:
            files.write(path, sealed(bytes(BATCH_BYTES)))
    except OSError:
        pass  # a full or worn flash: removing the file must do


def discard(outbox: "Outbox", first: int) -> None:
    """Drop the frames of a batch."""
    outbox.discard(lambda number: first <= number < first + BATCH)


def retire(files: "Files", folder: str, outbox: "Outbox") -> None:
    """Remove all batches of an earlier bundle, and drop their frames. Does nothing if there never was a batch."""
    if files.read(folder + STATE + ".0") is None:
        return
    for name in files.names(folder):
        first = first_of(name)
        if first is not None:
            discard(outbox, first)
            overwrite(files, folder + "/" + name)
    for name in files.names(folder):
        if name != STATE[1:] + ".0":  # removed last: it says that there is something to remove
            files.remove(folder + "/" + name)
    files.remove(folder + STATE + ".0")
