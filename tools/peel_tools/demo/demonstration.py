# SPDX-License-Identifier: MIT
"""The whole system on one machine: broker, gateway process, simulated fleet with attackers, referee."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from peel_gateway.fleet.folder import Fleet
from peel_tools.demo.gateway import Switches, program
from peel_tools.profiles.dataset import Dataset
from peel_tools.profiles.drafts import Proposal, propose, write_proposal
from peel_tools.servers.gateway import GatewayError
from peel_tools.simulation.attackers import ATTACKS, Target, default_shares, target_of
from peel_tools.simulation.referee import Findings
from peel_tools.simulation.runner import Progress
from peel_tools.simulation.session import Plan, SimulatedSite, true_means, write_unverified
from peel_tools.simulation.truth import MOMENT_SECONDS

__all__ = ["Demonstration", "Outcome"]

_QUOTA, _PERIOD = 1200, 60
"""Quota and period of proposed profiles: high, because a demonstration is short."""
_OFFLINE_SECONDS = 3
"""A demonstration's devices are never offline, so they need few approved numbers."""
_HTTP_PORT = 8420
_SWITCH_SECONDS = 0.5
_DRAIN_SECONDS = 30.0
_APPROVAL_SECONDS = 30.0
_CONFIRM_SECONDS = 30.0
_RECEIPT_SECONDS = 1.0  # short, so that the demonstration ends quickly
_SETTLE_SECONDS = 60.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a demonstration."""

    findings: Findings
    estimates: list[dict[str, Any]]
    """The gateway's estimates with the truth."""
    drained: bool
    """Whether the broker acknowledged everything in time."""
    confirmed: int
    """Reports in the messages that the gateway has confirmed."""
    unconfirmed: int
    """The number of unconfirmed messages."""
    unopened: int = 0
    """The number of honest reports whose verified coins are not opened."""

    @property
    def faults(self) -> list[str]:
        """Return the faults in words; empty if there are no faults."""
        late = [] if self.drained else [f"the broker has not acknowledged everything within {_DRAIN_SECONDS:g} s"]
        if self.unconfirmed:
            late.append(f"the gateway has not confirmed {self.unconfirmed} messages within {_CONFIRM_SECONDS:g} s")
        if self.unopened:
            late.append(f"{self.unopened} verified coins were not opened within {_CONFIRM_SECONDS:g} s")
        return late + self.findings.faults()

    def table(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return self.findings.table() | {"confirmed": self.confirmed, "estimates": self.estimates, "faults": self.faults}


class Demonstration:
    """A demonstration, which runs between `start` and `stop` in one folder.

    Parameters
    ----------
    folder : Path, optional
        The folder for all files. By default a temporary one, removed at the end.
    plan : Plan
        The simulation. If it has no attackers, the default ones are used. If it has a CSV file and there are no profiles, they are
        proposed from the file.
    profiles : sequence of Path
        Profiles instead of the built-in one.
    verify : bool
        Whether the built-in or proposed profile has verified coins. Those in `profiles` say it themselves.
    port : int, optional
        The port of page and API. By default the usual one, or any free one if that is taken.
    embedded : bool, optional
        Which broker: see `peel_tools.servers.broker.Broker`.
    """

    def __init__(
        self,
        *,
        folder: Path | None,
        devices: int,
        plan: Plan,
        profiles: Sequence[Path] = (),
        verify: bool = True,
        port: int | None = None,
        embedded: bool | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        if profiles and not verify:
            raise ValueError("--no-verify cannot be combined with --profile. Set verify = false in the profile.")
        self._folder = folder
        self._devices = devices
        self._plan = plan
        self._profiles = profiles
        self._verify = verify
        self._port = port
        self._embedded = embedded
        self._on_progress = on_progress
        self._undo = ExitStack()
        self._look = 0.0
        self.proposal: Proposal | None = None
        """The profile proposed from the user's data, if any."""

    def start(self) -> None:
        """Start everything. If something fails, stop what was started."""
        with ExitStack() as undo:
            self.folder = self._prepare(undo)
            rig = SimulatedSite(
                self.folder,
                mixed=self._devices,
                profiles=self._profiles or self._own_profiles(),
                embedded=self._embedded,
                settings={
                    "http_port": _free_http_port(self._port),
                    "store_bucket_seconds": MOMENT_SECONDS,
                    "mqtt_receipt_seconds": _RECEIPT_SECONDS,
                },
            )
            undo.callback(rig.close)
            self._switches = Switches(self.folder / "switches.json")
            rig.gateway.program = program(rig.truth_path, self.folder / "switches.json")
            rig.start()
            self.broker, self.gateway = rig.broker, rig.gateway
            plan = self._with_attackers(rig.fleet)
            self._switches.begin(_switchable(rig.fleet, plan))
            self.session = rig.session(plan, on_progress=self._progress)
            undo.enter_context(self.session)
            self._rig = rig
            self._undo = undo.pop_all()

    def stop(self) -> None:
        """Stop everything and remove what was temporary. Safe to call twice."""
        self._undo.close()

    def run(self, seconds: float | None) -> None:
        """Let the fleet report for this long, or until a signal. The time begins when its first numbers are approved."""
        self.session.simulation.wait_for_numbers(_APPROVAL_SECONDS)
        self.session.simulation.run(seconds=seconds)

    def settle(self) -> Outcome:
        """Wait until the gateway has recorded everything, and compare with the truth."""
        drained = self.session.simulation.drain(_DRAIN_SECONDS)
        self.session.simulation.confirm(_CONFIRM_SECONDS)
        findings = self._rig.settled(_SETTLE_SECONDS)
        estimates = self.estimates()
        code = self.gateway.stop()
        if code != 0:
            raise GatewayError(f"the gateway ended with code {code}; end of its log:\n{self.gateway.log_tail()}")
        simulation = self.session.simulation
        confirmed = self.session.truth.confirmed()
        return Outcome(findings, estimates, drained, confirmed, simulation.unconfirmed, simulation.unopened)

    def estimates(self) -> list[dict[str, Any]]:
        """Return the API's estimates with the true means of honest devices."""
        means = {profile.name: true_means(self.session.truth, profile) for profile in self.session.profiles}
        return [
            {
                "profile": profile,
                **{key: row[key] for key in ("name", "attribute", "kind", "unit", "n", "value", "low", "high")},
                "truth": means[profile][name],
                "before_withdrawal": row["before_withdrawal"]["value"],
            }
            for (profile, name), row in self._rig.estimates().items()
        ]

    def _with_attackers(self, fleet: Fleet) -> Plan:
        """Return the plan. If it has no attackers, add the default ones for this fleet's questions."""
        return replace(self._plan, shares=self._plan.shares or default_shares(_targets(fleet)))

    def _own_profiles(self) -> list[Path]:
        """Propose and write a profile for the plan's CSV file, if it has one. Without one, write the built-in profile if it is changed."""
        if self._plan.csv is not None:
            proposal = propose(Dataset.read(self._plan.csv), "own_data", quota=_QUOTA, period=_PERIOD)
            draft = replace(proposal.draft, verify=False)
            if self._verify:
                draft = replace(proposal.draft, offline=_OFFLINE_SECONDS, bucket=MOMENT_SECONDS)
            self.proposal = replace(proposal, draft=draft)
            return [write_proposal(self.proposal, self.folder, overwrite=True)]
        if self._verify:
            return []
        return [write_unverified("room", self.folder)]

    def _progress(self, progress: Progress) -> None:
        if self.gateway.pid is None:
            raise GatewayError(f"the gateway has ended; end of its log:\n{self.gateway.log_tail()}")
        if progress.seconds >= self._look:
            self._look = progress.seconds + _SWITCH_SECONDS
            for attack, on in self._switches.changes().items():
                self.session.switch(attack, on)
        self._on_progress(progress)

    def _prepare(self, undo: ExitStack) -> Path:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            return self._folder.resolve()
        folder = Path(tempfile.mkdtemp(prefix="peel-demo-"))
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder


def _switchable(fleet: Fleet, plan: Plan) -> dict[str, bool]:
    """Return the attacks that this fleet's devices can play, and whether they are on at the start."""
    targets = _targets(fleet)
    return {name: plan.shares.get(name, 0) > 0 for name, attack in ATTACKS.items() if any(map(attack.fits, targets))}


def _targets(fleet: Fleet) -> frozenset[Target]:
    """Return the properties of the devices' profiles that decide which attacks fit."""
    profiles = fleet.profiles()
    return frozenset(target_of(profiles[name]) for name in {device.profile for device in fleet.devices()})


def _free_http_port(asked: int | None) -> int:
    """Return the requested port, else the gateway's usual one, or any free one if that is taken."""
    for port in (_HTTP_PORT, 0) if asked is None else (asked,):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise GatewayError(
        f"port {asked or _HTTP_PORT} is taken. Stop the program that listens there, or choose another with --port"
    )
