# SPDX-License-Identifier: MIT
"""The process of a gateway: signals, and how it ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from types import FrameType

from starlette.routing import Route

from peel_gateway.exits import Exit
from peel_gateway.fleet.registry import FleetError
from peel_gateway.logs import Log
from peel_gateway.service.service import Service
from peel_gateway.settings import Settings
from peel_gateway.storage.store import StoreError
from peel_gateway.web.server import HttpError

__all__ = ["run_service"]

_TICK_SECONDS = 0.5

_log = Log("service")


def run_service(settings: Settings, *, more_routes: Sequence[Route] = ()) -> Exit:
    """Run until SIGTERM or SIGINT, or until the database cannot be used; SIGHUP reloads. Call it on the main thread."""
    service = Service(settings, more_routes=more_routes)
    reload_asked = threading.Event()
    stop_asked = threading.Event()

    def on_stop(number: int, _: FrameType | None) -> None:
        stop_asked.set()
        service.ended.set()

    handlers = {
        signal.SIGTERM: on_stop,
        signal.SIGINT: on_stop,
        signal.SIGHUP: lambda *_: reload_asked.set(),
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        service.start()
        while not service.ended.wait(_TICK_SECONDS):
            asked = reload_asked.is_set()
            reload_asked.clear()
            service.tick(reload=asked)
        _log.info("stopping", reason="signal" if stop_asked.is_set() else "failure")
        return service.stop()
    except FleetError as error:
        _log.error("the fleet folder cannot be used", cause=error)
        return Exit.FLEET
    except StoreError as error:
        _log.error("the database cannot be used", cause=error)
        return error.exit_code
    except HttpError as error:
        _log.error("HTTP cannot be served", cause=error)
        return Exit.HTTP
    except Exception:
        _log.exception("the gateway failed")
        return Exit.INTERNAL
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
