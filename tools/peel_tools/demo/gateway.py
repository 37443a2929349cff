# SPDX-License-Identifier: MIT
"""The gateway of a demonstration: it also knows the truth, and passes on which attacks are switched on.

Run as `python -m peel_tools.demo.gateway TRUTH SWITCHES`, with settings from the environment. No other gateway has these routes."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from math import isfinite
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from peel_gateway.fleet.folder import Fleet, device_label
from peel_gateway.logs import configure_logs
from peel_gateway.queries.parameters import EstimateQuery, QueryError, SpanQuery, parse_query
from peel_gateway.queries.responses import moment
from peel_gateway.service.service import run_service
from peel_gateway.settings import load_settings
from peel_gateway.web.access import read_form, require_same_origin
from peel_tools.simulation.attackers import ATTACKS
from peel_tools.simulation.piece import HONEST
from peel_tools.simulation.session import true_history, true_means
from peel_tools.simulation.truth import MOMENT_SECONDS, Truth

__all__ = ["Switches", "demo_routes", "program"]


class Switches:
    """A file with the attacks by name, on or off. The page changes it and the simulation polls it. It is written atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: dict[str, bool] = {}

    def begin(self, states: Mapping[str, bool]) -> None:
        """Set the attacks that can be switched, and their states."""
        self._seen = dict(states)
        self._write(self._seen)

    def states(self) -> dict[str, bool]:
        """Return all states; empty before `begin`."""
        try:
            found: dict[str, bool] = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def set(self, name: str, on: bool) -> None:
        """Switch an attack on or off. Raise ValueError if it cannot be switched."""
        states = self.states()
        if name not in states:
            raise ValueError(f"unknown attack {name!r}; known: {', '.join(states) or 'none'}")
        self._write(states | {name: on})

    def changes(self) -> dict[str, bool]:
        """Return the states that changed since the last call."""
        now = self.states()
        changed = {name: on for name, on in now.items() if self._seen.get(name) != on}
        self._seen = now
        return changed

    def _write(self, states: Mapping[str, bool]) -> None:
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(states), encoding="utf-8")
        draft.replace(self._path)


def program(truth: Path, switches: Path) -> list[str]:
    """Return the arguments for the Python interpreter."""
    return ["-m", "peel_tools.demo.gateway", str(truth), str(switches)]


def demo_routes(fleet: Fleet, truth_path: Path, switches: Switches) -> list[Route]:
    """Return the routes that only a demonstration has."""

    def get_demo(request: Request) -> Response:
        """Only in a demonstration: the truth beside each estimate (from `since`), the attackers' roles, which attacks are on."""
        since = parse_query(SpanQuery, request.query_params).since or 0
        if not truth_path.exists():
            return JSONResponse({"truth": {}, "roles": {}, "attacks": []})
        with closing(Truth(truth_path)) as truth:
            means = {profile.name: true_means(truth, profile, since) for profile in fleet.profiles().values()}
            roles = {device: role for device, (role, _) in truth.devices().items() if role != HONEST}
        return JSONResponse(
            {
                "truth": {
                    name: {figure: value for figure, value in values.items() if isfinite(value)}
                    for name, values in means.items()
                },
                "roles": {device_label(device): role for device, role in roles.items()},
                "attacks": _attack_tables(switches.states(), Counter(roles.values())),
            }
        )

    def get_history(request: Request) -> Response:
        """Only in a demonstration: the truth of one figure over time, asked for by `profile`, `name`, `bucket` and `since`."""
        asked = parse_query(EstimateQuery, request.query_params)
        name, profile = asked.name, fleet.profiles().get(asked.profile or "")
        if profile is None:
            raise QueryError("profile: must be given; /api/profiles has their names")
        places = [place for place in range(profile.size) if profile.label(place) == name]
        if not places:
            raise QueryError(f"name: the profile {profile.name} has no {name!r}")
        if not truth_path.exists():
            return JSONResponse({"items": []})
        seconds = asked.bucket or MOMENT_SECONDS
        with closing(Truth(truth_path)) as truth:
            history = true_history(truth, profile, places[0], seconds, asked.since or 0)
        return JSONResponse({"items": [{"start": moment(start), "value": value} for start, value in history]})

    async def post_attack(request: Request) -> Response:
        """Only in a demonstration: switch an attack on or off. Fields: `name`, `on` (yes or no)."""
        require_same_origin(request)
        form = await read_form(request)
        if form.get("on") not in ("yes", "no"):
            raise HTTPException(400, "on: must be yes or no")
        try:
            switches.set(form.get("name", ""), form["on"] == "yes")
        except ValueError as error:
            raise HTTPException(400, f"name: {error}") from None
        return JSONResponse({"status": "ok"})

    return [
        Route("/api/demo", get_demo),
        Route("/api/demo/history", get_history),
        Route("/api/demo/attacks", post_attack, methods=["POST"]),
    ]


def _attack_tables(states: dict[str, bool], devices: Counter[str]) -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "on": on,
            "help": ATTACKS[name].help,
            "layer": ATTACKS[name].layer_label or None,
            "by_device": ATTACKS[name].by_device,
            "devices": devices[name],
        }
        for name, on in states.items()
    ]


def main() -> None:
    truth, switches = map(Path, sys.argv[1:])
    settings = load_settings()
    configure_logs(settings.log_level, settings.log_format)
    routes = demo_routes(Fleet(settings.fleet_folder), truth, Switches(switches))
    sys.exit(run_service(settings, more_routes=routes))


if __name__ == "__main__":
    main()
