# SPDX-License-Identifier: MIT
"""Forms that browsers send, of a bounded size."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

__all__ = ["read_form"]

_MOST_BYTES = 4096


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a request's body; of several with one name the last.

    A body that is too slow has its connection cut (`connections`).
    """
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST_BYTES:
                raise HTTPException(413, f"the body has more than {_MOST_BYTES} bytes; send only the form's fields")
    except ClientDisconnect:
        raise HTTPException(400, "the connection ended before the body did") from None
    return dict(parse_qsl(body.decode("utf-8", "replace")))
