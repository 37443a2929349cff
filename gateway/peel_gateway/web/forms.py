# SPDX-License-Identifier: MIT
"""Forms that browsers send: small ones, and soon."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

__all__ = ["read_form"]

_MOST_BYTES = 4096
_SECONDS = 5.0


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a request's body; of several with one name the last."""
    body = b""
    try:
        async with asyncio.timeout(_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise HTTPException(413, f"at most {_MOST_BYTES} bytes, please")
    except TimeoutError:
        raise HTTPException(408, "the body did not come") from None
    return dict(parse_qsl(body.decode("utf-8", "replace")))
