# SPDX-License-Identifier: MIT
"""The sources of generated text: a function for each block name, and one for each file that is generated whole."""

from __future__ import annotations

from docs.generator.blocks import Source
from docs.generator.design_text import projection_table
from docs.generator.figures.sections import figures_section
from docs.generator.lab_text import lab_attacks, lab_run, lab_section, verified_costs
from docs.generator.plan_text import plan_text
from docs.generator.promise_text import (
    exposure_table,
    hysteresis_table,
    insider_table,
    mixed_exposure_table,
    mixed_picking_sentence,
    mixed_table,
    one_attribute_table,
    picking_table,
    promise_sentence,
    sacrifice_table,
    verified_bounds_table,
    verified_insiders_table,
    verified_tables_sentence,
)
from docs.generator.reference_text import (
    architecture_table,
    board_table,
    command_table,
    endpoint_table,
    exit_table,
    state_table,
    verdict_table,
)
from peel_gateway.settings.table import markdown_table, sample_toml

__all__ = ["FILES", "SOURCES"]

SOURCES: dict[str, Source] = {
    "architectures": architecture_table,
    "boards": board_table,
    "commands": command_table,
    "endpoints": endpoint_table,
    "exits": exit_table,
    "figures": figures_section,
    "lab": lab_section,
    "lab-attacks": lab_attacks,
    "lab-run": lab_run,
    "plan": plan_text,
    "projection": projection_table,
    "promise": promise_sentence,
    "promise-exposed": exposure_table,
    "promise-hysteresis": hysteresis_table,
    "promise-insider": insider_table,
    "promise-mixed": mixed_table,
    "promise-mixed-exposure": mixed_exposure_table,
    "promise-mixed-picking": mixed_picking_sentence,
    "promise-one-attribute": one_attribute_table,
    "promise-picking": picking_table,
    "promise-sacrifice": sacrifice_table,
    "promise-verified": verified_bounds_table,
    "promise-verified-insiders": verified_insiders_table,
    "promise-verified-tables": verified_tables_sentence,
    "settings": markdown_table,
    "states": state_table,
    "verdicts": verdict_table,
    "verified-costs": verified_costs,
}

FILES: dict[str, Source] = {"gateway/gateway.sample.toml": sample_toml}
