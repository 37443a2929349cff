# SPDX-License-Identifier: MIT
"""Several workers on one fleet: they divide the partitions, take over from each other, and count every report once."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from databases import PostgresSchema
from field import PARTITIONS, Field, Load, WorkerPool, retained
from helpers import wait_until

from peel_core.topics import fleet_topic
from peel_gateway.metrics import Metrics
from peel_gateway.model.partition import Partition
from peel_gateway.mqtt.client import MqttClient
from peel_gateway.mqtt.connection import report_session
from peel_gateway.mqtt.inbox import Inbox
from peel_gateway.notifiers.alarm import MANY
from peel_gateway.settings import Settings
from peel_hil.listener import Listener
from peel_tools.servers.gateway import GatewayProcess
from peel_tools.servers.postgres import PostgresServer

ALL = list(range(PARTITIONS))


@pytest.fixture
def pool(field: Field, new_schema: Callable[[], PostgresSchema]) -> WorkerPool:
    schema = new_schema()
    return WorkerPool(field, schema.url, store_schema=schema.schema)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_workers_partition_a_fleet_and_count_everything_once(pool: WorkerPool, count: int) -> None:
    workers = pool.start(count)
    assert pool.wait_shared(*workers) == [PARTITIONS // count] * count
    published = pool.field.reports(800)
    pool.field.publish(published)
    for worker in workers:
        assert "peel_broker_sessions_lost_total 0.0" in worker.fetch("/metrics")
    pool.audit(published)


def test_partitions_change_hands_when_workers_come_die_and_stop(
    pool: WorkerPool, record_property: Callable[[str, object], None]
) -> None:
    """All under load: one more to share with, one killed, one stopped for longer than its leases last, which then wakes up."""
    killed, stopped = pool.start(2)
    pool.wait_shared(killed, stopped)
    with Load(pool.field) as load:
        (staying,) = pool.start()
        pool.wait_shared(killed, stopped, staying)

        killed.kill()
        took = wait_until(
            lambda: sorted(pool.owned(stopped) + pool.owned(staying)) == ALL, "the killed one's partitions"
        )
        record_property("takeover_seconds", round(took, 2))

        stopped.signal(signal.SIGSTOP)
        wait_until(lambda: pool.owned(staying) == ALL, "the stopped one's partitions")
        listed = pool.leases(staying)
        (alone,) = listed["workers"]
        assert (alone["partitions"], {row["owner"] for row in listed["partitions"]}) == (ALL, {alone["worker"]})

        stopped.signal(signal.SIGCONT)
        wait_until(lambda: "partition lost" in stopped.log_path.read_text(), "that it finds out")
        pool.wait_shared(stopped, staying)
        assert stopped.pid is not None, "it takes part again"
    pool.audit(load.sent)


def test_what_is_done_once_per_fleet_is_done_by_the_owner_of_the_first_partition(pool: WorkerPool) -> None:
    first, second = pool.start(2)
    pool.wait_shared(first, second)
    if 0 in pool.owned(second):
        first, second = second, first
    base = f"peel/v1/{pool.field.fleet.name}/gateway/main"
    pool.field.publish(pool.field.reports(40))
    wait_until(lambda: pool.accepted() == 40, "acceptance")

    def kept(about: str) -> Any:
        return json.loads(retained(pool.field.broker.port, f"{base}/{about}") or b"null")

    wait_until(lambda: kept("summary")["accepted"] == 40, "what the owner publishes")
    first.kill()
    wait_until(lambda: kept("status") == {"state": "offline"}, "the broker's word for it")
    pool.field.publish(pool.field.reports(20))
    wait_until(lambda: kept("summary")["accepted"] == 60, "what its successor publishes")
    assert kept("status") == {"state": "online"}
    assert "peel_estimate_low{" in second.fetch("/metrics")  # the value itself needs more reports


def test_an_alert_fires_once_for_all_workers_and_stays_active_under_another_leader(pool: WorkerPool) -> None:
    field, metric = pool.field, 'peel_alert_active{alert="warm"} 1.0'
    for name in ("worker0", "worker1"):
        field.write_alerts(
            'name = "warm"\nprofile = "climate"\nfigure = "temperature"\nabove = 0\nwindow = "1h"', gateway=name
        )
    base = fleet_topic("field", "gateway", "main", "alert")
    with Listener((field.broker.host, field.broker.port), base) as listener:
        workers = pool.start(2)
        pool.wait_shared(*workers)
        field.publish(field.reports(1000))
        wait_until(lambda: any(metric in worker.fetch("/metrics") for worker in workers), "an active alert")
        (leader,) = [worker for worker in workers if "peel_alert_active{" in worker.fetch("/metrics")]
        (other,) = [worker for worker in workers if worker is not leader]
        since = json.loads(retained(field.broker.port, f"{base}/warm") or b"{}")["since"]
        leader.kill()
        wait_until(lambda: metric in other.fetch("/metrics"), "the other one's evaluation")
        assert json.loads(retained(field.broker.port, f"{base}/warm") or b"{}")["since"] == since
        assert len(listener.messages) == 1


def test_the_wide_alarm_counts_the_devices_that_all_workers_expose(pool: WorkerPool) -> None:
    workers = pool.start(2)
    pool.wait_shared(*workers)
    many = [1, 2, 3, 4, 5, 6]
    pool.field.publish(pool.field.reports(len(many), devices=many, odds=(3, 1)))

    def total(worker: GatewayProcess, metric: str) -> float:
        lines = worker.fetch("/metrics").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(metric))

    wait_until(lambda: sum(total(worker, "peel_alarms_total") for worker in workers) == 1, "one alarm")
    exposed = [total(worker, "peel_device_exposures_total") for worker in workers]
    assert sum(exposed) == len(many)
    assert max(exposed) < MANY, "neither of them has seen enough by itself"


def test_servers_may_be_restarted_or_replaced(field: Field) -> None:
    """All under load: the broker, then the database, restarted; the database gone for good, and its standby in its place."""
    with PostgresServer() as primary, PostgresServer(primary=primary) as standby:
        with psycopg.connect(primary.url, autocommit=True) as admin:  # from now on a commit waits for the standby
            admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            admin.execute("SELECT pg_reload_conf()")
        either = f"postgresql://postgres@/postgres?host={primary.folder},{standby.folder}&port=5432,5432"
        pool = WorkerPool(field, f"{either}&target_session_attrs=read-write")
        workers = pool.start(2)
        pool.wait_shared(*workers)
        with Load(field) as load:
            _go_on(pool, load)
            field.broker.stop()
            field.broker.start()
            _go_on(pool, load)
            primary.kill()
            primary.start()
            _go_on(pool, load)
            primary.kill()
            standby.promote()
            with psycopg.connect(
                standby.url, autocommit=True
            ) as admin:  # a copy of the primary's settings waits for others
                admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
                admin.execute("SELECT pg_reload_conf()")
            _go_on(pool, load)
        pool.audit(load.sent)


def _go_on(pool: WorkerPool, load: Load) -> None:
    """Wait until what was sent before, and some more, is stored."""
    goal = len(load.sent) + 100
    wait_until(lambda: len(load.sent) >= goal and pool.accepted() >= goal, "that reports are stored again", 60)


def test_a_worker_stops_in_order_while_its_database_is_away(field: Field) -> None:
    with PostgresServer(fsync="off") as server:
        pool = WorkerPool(field, server.url)
        (worker,) = pool.start()
        pool.wait_shared(worker)
        server.stop()
        wait_until(lambda: "leases cannot be renewed" in worker.log_path.read_text(), "that it finds out")
        assert worker.stop() == 0, worker.log_tail()
        server.start()


def test_whose_lease_has_run_out_takes_no_session_back(field: Field) -> None:
    """Cut off from the database but not from the broker, it would else oust the new owner again and again."""
    field.broker.start()
    settings = Settings(mqtt_port=field.broker.port, mqtt_backoff_seconds=0.2)
    holding = True

    def client(may_connect: Callable[[], bool], on_connect: Callable[[], None]) -> MqttClient:
        session = report_session(settings, "field", Partition(3, 8))
        inbox = Inbox(limit_messages=10, limit_bytes=1000)
        return MqttClient(
            *(settings, "field", session, inbox, Metrics()),
            on_connect=on_connect,
            may_connect=may_connect,
        )

    connections: list[str] = []
    former = client(lambda: holding, lambda: connections.append("former"))
    heir = client(lambda: True, lambda: connections.append("heir"))
    former.start()
    wait_until(lambda: former.connected, "the first owner")
    holding = False
    heir.start()
    wait_until(lambda: heir.connected and not former.connected, "the second")
    time.sleep(1.5)
    assert connections == ["former", "heir"]
    heir.stop()
    holding = True
    wait_until(lambda: former.connected, "the first one again, which may now")
    former.stop()
