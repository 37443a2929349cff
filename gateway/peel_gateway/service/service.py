# SPDX-License-Identifier: MIT
"""The gateway as a service: builds its parts, starts, reloads and stops them; handles signals."""

from __future__ import annotations

import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING

from starlette.routing import Route
from starlette.types import ASGIApp

from peel_core.topics import fleet_topic
from peel_gateway.engine.engine import Engine
from peel_gateway.exits import Exit
from peel_gateway.fleet.claims import Claims, ClaimsFile, load_claims
from peel_gateway.fleet.folder import FleetError
from peel_gateway.logs import Log
from peel_gateway.metrics import Metrics
from peel_gateway.model.partition import Partition
from peel_gateway.mqtt.client import MqttClient
from peel_gateway.mqtt.connection import gateway_topic, status_session
from peel_gateway.mqtt.inbox import Inbox
from peel_gateway.notifiers.alarm import Alarm
from peel_gateway.notifiers.alerts import check_alerts
from peel_gateway.notifiers.publisher import EstimatePublisher
from peel_gateway.notifiers.webhook import Webhook
from peel_gateway.queries.exposed import Cases
from peel_gateway.queries.views import open_views
from peel_gateway.service.fleet_watch import FleetWatch
from peel_gateway.service.pipeline import Pipeline
from peel_gateway.service.pool import PipelinePool, SingleWorker, Worker
from peel_gateway.service.status import VERSION, GatewayStatus
from peel_gateway.settings import Settings, SettingsError
from peel_gateway.storage.choice import open_archive, open_leases, open_store
from peel_gateway.storage.store import Archive, StoreError, StoreUnusable
from peel_gateway.web.app import build_app
from peel_gateway.web.server import HttpError, HttpServer

if TYPE_CHECKING:
    from peel_gateway.storage.leases import Leases

__all__ = ["Service", "run_service"]

_CHORE_SECONDS = 3600.0

_log = Log("service")


class Service:
    """A gateway in this process. Call `start`, then `tick` about twice a second, then `stop`.

    Parameters
    ----------
    more_routes : sequence of Route
        Added to the HTTP server, for programs that extend the gateway.
    """

    def __init__(self, settings: Settings, *, more_routes: Sequence[Route] = ()) -> None:
        self._settings = settings
        self._more_routes = more_routes
        self.ended = threading.Event()
        self._streams_end = threading.Event()
        self._chores_due = time.monotonic()
        self._looked = time.monotonic()
        self._http: HttpServer | None = None
        self._worker_name = _worker_name(settings) if settings.store_url is not None else ""
        """This worker's name; empty if there is only one."""

    def start(self) -> None:
        """Open all parts, then connect. On SettingsError, FleetError, StoreError or HttpError all parts are closed again."""
        settings = self._settings
        self._metrics = Metrics()
        self._fleet = FleetWatch(settings.fleet_folder, self._metrics)
        self._http = HttpServer(settings) if settings.http_port else None
        with ExitStack() as undo:
            if self._http is not None:
                undo.callback(self._http.stop)
            build_worker = self._open_store()
            undo.callback(self._store.close)
            self._fleet.join(self._store)
            self._build_parts()
            check_alerts(settings.alerts, self._views, self._store.bucket_seconds)
            self._worker = build_worker()
            self._status = self._build_status()
            self._worker.start()
            undo.pop_all()
        self._status_client.start()
        self._publisher.start()
        self._webhook.start()
        if self._http is not None:
            self._http.start(self._build_app())
        _log.info(
            "started",
            version=VERSION,
            fleet=self._fleet.name,
            devices=len(self._fleet.snapshot.devices),
            profiles=len(self._fleet.snapshot.profiles),
            store=self._store.place,
        )

    def _build_parts(self) -> None:
        settings, name = self._settings, self._fleet.name
        self._exposures = gateway_topic(name, settings.gateway_name, "exposure")
        self._claims = Claims(
            name, lambda device: self._fleet.snapshot.devices.has(device), load_claims(settings.claims_path)
        )
        self._claims_file = ClaimsFile(settings.claims_path, self._claims)
        self._views = open_views(settings, self._store, lambda: self._fleet.snapshot, self._claims.get)
        self._cases = Cases(self._store, lambda: self._fleet.snapshot, residual_limit=settings.screen_residual_limit)
        self._webhook = Webhook(settings, name, self._metrics)
        self._publisher = EstimatePublisher(
            settings,
            name,
            self._views,
            self._publish_retained,
            self._publish_event,
            VERSION,
            is_leader=lambda: self._pool.is_leader,
        )
        self._pool = PipelinePool(settings, self._fleet.snapshot, self._build_pipeline, on_failure=self.ended.set)
        self._alarm = Alarm(
            self._metrics,
            self._publish_event,
            worker=self._worker_name,
            is_leader=lambda: self._pool.is_leader,
            accident=self._views.accident,
        )
        self._status_client = self._build_status_client()

    def _build_status(self) -> GatewayStatus:
        """Build the status and register its gauges."""
        status = GatewayStatus(
            settings=self._settings,
            worker_name=self._worker_name,
            fleet=self._fleet,
            store=self._store,
            views=self._views,
            pool=self._pool,
            worker=self._worker,
            clients=lambda: self._clients,
        )
        status.register_metrics(self._metrics)
        self._metrics.watch_estimates(lambda: self._publisher.estimates)
        self._metrics.watch_alerts(lambda: self._publisher.alerts.active)
        return status

    def _open_store(self) -> Callable[[], Worker]:
        """Open the store for reading; return a function that builds the worker, which opens it for writing."""
        self._store: Archive
        leases = open_leases(self._settings)
        if leases is not None:
            self._store = open_archive(self._settings)
            return lambda: self._build_leasing_worker(leases)
        self._store = whole = open_store(self._settings, gateway=True)
        return lambda: SingleWorker(self._pool, whole)

    def _build_leasing_worker(self, leases: Leases) -> Worker:
        # Imported here, because a gateway on one machine needs none of it.
        from peel_gateway.service.leasing import LeasingWorker

        settings = self._settings
        return LeasingWorker(
            self._pool,
            leases,
            lambda lease: open_store(settings, lease.partition, epoch=lease.epoch),
            name=self._worker_name,
            partitions=self._store.partitions,
            seconds=settings.worker_lease_seconds,
            on_failure=self.ended.set,
        )

    def _build_status_client(self) -> MqttClient:
        """Build the client for all messages that are not reports: statuses in, events and estimates out.

        Reports have separate connections, so that a flood of statuses cannot delay acknowledgements and receipts.
        """
        settings, name = self._settings, self._fleet.name
        filters = [fleet_topic(name, "+", "+", "status"), *self._publisher.topics]
        if self._worker_name:
            filters.append(self._exposures)  # published by the other workers
        session = status_session(settings, name, self._worker_name, filters)
        nothing = Inbox(limit_messages=1, limit_bytes=1)
        return MqttClient(
            settings,
            name,
            session,
            nothing,
            self._metrics,
            on_message=self._on_message,
            on_connect=self._publisher.on_connect,
        )

    def _build_pipeline(
        self, partition: Partition, engine: Engine, may_connect: Callable[[], bool], on_end: Callable[[], None]
    ) -> Pipeline:
        return Pipeline(
            self._settings,
            self._fleet.name,
            partition,
            engine,
            self._metrics,
            alarm=self._alarm,
            on_end=on_end,
            may_connect=may_connect,
        )

    def stop(self) -> Exit:
        """Stop reading, store and acknowledge received messages, publish "offline", close; return the exit code."""
        self._publisher.stop()
        self._worker.stop()
        self._status_client.stop()
        self._webhook.stop()
        self._streams_end.set()
        if self._http is not None:
            self._http.stop()
        self._save_claims(self._claims_file.write)
        if self._pool.drained:
            self._save_lost()
            self._store.close()
        code = self._exit_code()
        _log.info("stopped", code=int(code), unacknowledged=self._pool.abandoned)
        return code

    def _save_lost(self) -> None:
        """Save a copy of the database if its file was moved, replaced or deleted."""
        try:
            saved = self._store.save_lost()
        except StoreError as error:
            _log.error("the database file is lost, and its content could not be saved", cause=error)
        else:
            if saved is not None:
                _log.error("the database file is lost; restore the copy of its content", file=saved)

    def tick(self, *, reload: bool = False) -> None:
        """Reload the fleet folder if it has changed or `reload` is true, and run the chores that are due."""
        now = time.monotonic()
        every = self._settings.fleet_reload_seconds
        if reload or (every and now - self._looked >= every):
            self._looked = now
            self._fleet.look(force=reload, load=self._pool.load)
        if now >= self._chores_due:
            self._chores_due = now + _CHORE_SECONDS
            for pipeline in self._pool.pipelines:
                pipeline.prune()
        self._save_claims(lambda: self._claims_file.tick(now))

    @property
    def _clients(self) -> Sequence[MqttClient]:
        """The clients of all connections to the broker, first the one for statuses."""
        return (self._status_client, *self._pool.clients)

    def _build_app(self) -> ASGIApp:
        return build_app(
            self._views,
            self._cases,
            self._metrics,
            summary=self._status.summary,
            alerts=self._publisher.alerts.listed,
            health=self._status.health_response,
            generation=lambda: self._pool.generation,
            stopping=self._streams_end,
            token=self._settings.http_token,
            streams=self._settings.http_streams,
            more_routes=self._more_routes,
        )

    def _publish_event(self, about: str, document: Mapping[str, object]) -> None:
        self._status_client.publish_event(about, document)
        self._webhook.post(about, document)

    def _publish_retained(self, topic: str, text: str) -> None:
        self._status_client.publish_retained(topic, text)

    def _on_message(self, topic: str, payload: bytes, retained: bool) -> None:
        if topic == self._exposures:
            self._alarm.on_exposure_message(payload)
        if self._publisher.on_message(topic, payload) or topic.startswith(fleet_topic(self._fleet.name, "gateway/")):
            return  # the filter for device statuses also matches the statuses of gateways
        self._metrics.status_heard(self._claims.hear(topic, payload, retained=retained, now=time.time()))

    def _save_claims(self, save: Callable[[], object]) -> None:
        try:
            save()
        except OSError as error:
            _log.warning("the devices' status reports are not saved", file=self._settings.claims_path, cause=error)

    def _exit_code(self) -> Exit:
        failure = self._pool.failure
        if isinstance(failure, StoreUnusable):
            return Exit.STORE
        if failure is not None:
            return Exit.INTERNAL
        if self._pool.abandoned or not self._pool.drained:
            return Exit.UNSTORED
        return Exit.DONE


def _worker_name(settings: Settings) -> str:
    """Return a unique name, different after each start."""
    return f"{settings.worker_name or socket.gethostname()}-{secrets.token_hex(3)}"


_TICK_SECONDS = 0.5


def run_service(settings: Settings, *, more_routes: Sequence[Route] = ()) -> Exit:
    """Run a gateway until SIGTERM, SIGINT or a fatal error; SIGHUP reloads the fleet folder. Call it on the main thread."""
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
    except SettingsError as error:
        _log.error("a setting is wrong", cause=error)
        return Exit.USAGE
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
