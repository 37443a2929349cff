# SPDX-License-Identifier: MIT
"""The page of a demonstration: true values, switches, accessibility."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_support import OpenPage
from playwright.sync_api import Route, expect

from peel_tools.servers import free_port

AXE = Axe()
LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = (
    (1280, "light"),
    (1280, "dark"),
    (375, "dark"),
    (375, "light"),
)


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a demonstration that runs as `peel demo` does, and no longer than these tests: it keeps a core busy."""
    folder, port = tmp_path_factory.mktemp("demonstration"), free_port()
    command = [sys.executable, "-m", "peel_tools", "demo", "--dir", str(folder), "--port", str(port)]
    with (folder / "output").open("wb") as output:
        running = subprocess.Popen(
            [*command, "--devices", "60", "--rate", "300", "--seed", "5"], stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + 60
        while f":{port}/" not in (folder / "output").read_text():
            assert running.poll() is None and time.monotonic() < deadline, (folder / "output").read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/"
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(120)


def test_everybody_can_read_it(demonstration: str, open_page: OpenPage) -> None:
    """Nothing to object to by axe, and nothing to scroll sideways for, on a desk and on a phone, by day and by night."""
    page = open_page(demonstration)
    expect(page.locator("#exposed-list .case").first).to_be_visible()
    expect(page.locator("#devices-table tbody tr").first).to_be_visible()
    expect(page.locator("#why-body .sentence")).to_be_visible()
    expect(page.locator("#plan-accuracies tbody tr").first).to_be_attached()
    for summary in page.locator("details > summary").all():
        summary.click()
    for width, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        found = AXE.run(page)
        assert found.violations_count == 0, f"{width} {scheme}: {found.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_truth_stands_beside_each_estimate(demonstration: str, open_page: OpenPage) -> None:
    page = open_page(demonstration)
    rows = page.locator("#estimates-list > li")
    # A mean, two thresholds, a median, three doors, and errors if they stand out.
    page.wait_for_function("() => [7, 8, 9, 10, 11].includes(document.querySelectorAll('#estimates-list > li').length)")
    expect(rows.first.locator("svg.rangebar > svg.truth")).to_have_attribute("visibility", "visible")
    expect(rows.first.locator(".rangebar")).to_have_attribute("aria-label", re.compile(r", truth -?[\d.]+"))
    above = rows.filter(has_text="temperature above 26\N{NARROW NO-BREAK SPACE}°C")
    expect(above.locator(".unit")).to_have_text("%")
    expect(above.locator("svg.rangebar > svg.truth")).to_have_attribute("visibility", "visible")
    expect(page.locator("#distributions h3")).to_contain_text("co2")
    expect(page.locator("#distributions path.truthline")).to_have_count(1)
    expect(page.locator("#distributions figcaption")).to_contain_text("half are at most")
    expect(page.locator("#privacy-body")).to_contain_text("a sign or a category")


def test_each_kind_has_its_history(demonstration: str, open_page: OpenPage) -> None:
    page = open_page(demonstration)
    for name, unit in (("co2: median", "ppm"), ("door: open", "%"), ("temperature above 30", "%")):
        page.get_by_role("button", name=name).click()
        expect(page.locator("#history-note")).to_contain_text(re.compile(f"^{name}.*{unit}, per"))
        expect(page.locator("#history-chart svg.bandchart")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Show all 107")).click()
    expect(page.locator("#estimates-list > li")).to_have_count(107)


def test_the_truth_of_the_history_moves(demonstration: str, open_page: OpenPage) -> None:
    """A day takes half a minute here: a level line would make every estimate look wrong."""
    page = open_page(demonstration)
    page.wait_for_function(
        """() => {
            const line = document.querySelector("#history-chart path.truthline")?.getAttribute("d") ?? "";
            const heights = [...line.matchAll(/,([\\d.]+)/g)].map((found) => found[1]);
            return heights.length > 1 && new Set(heights).size > 1;
        }"""
    )
    page.get_by_role("radio", name="5 min").check()
    expect(page.locator("#estimates-list svg.truth").first).to_have_attribute("visibility", "visible")


def test_an_attack_is_started_and_seen(demonstration: str, open_page: OpenPage) -> None:
    page = open_page(demonstration)
    switch = page.get_by_role("switch", name="budget")
    expect(switch).to_have_attribute("aria-checked", "true")
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "false")
    before = set(page.locator("#exposed-list .case code").all_inner_texts())
    switch.press("Enter")
    expect(switch).to_have_attribute("aria-checked", "true")
    page.get_by_role("button", name=re.compile("^Show all")).last.click()
    budget = page.locator("#exposed-list .case", has_text="role: budget")
    expect(budget.first).to_be_visible()
    page.wait_for_function("(n) => document.querySelectorAll('#exposed-list .case').length > n", arg=len(before))


def test_the_sentence_about_an_attack_follows_it(demonstration: str, open_page: OpenPage) -> None:
    page = open_page(demonstration)
    page.get_by_role("switch", name="burst").click()
    expect(page.locator("#demo-hint")).to_contain_text("1 device so far")


def test_an_honest_report_has_its_spike_at_something(demonstration: str, open_page: OpenPage) -> None:
    """Also where nothing is assigned, as with categories, and the reported vector is nearest to a place without a meaning."""

    def nowhere(route: Route) -> None:
        answer = route.fetch()
        piece = answer.json()
        piece["picture"] |= {"assigned": None, "place": piece["picture"]["width"] - 1}
        route.fulfill(response=answer, json=piece)

    page = open_page(demonstration)
    page.route("**/api/exposures/*", nowhere)
    page.reload()
    expect(page.locator("#why-body h3").first).to_contain_text("one spike at temperature, the rest flat")
