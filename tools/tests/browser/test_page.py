# SPDX-License-Identifier: MIT
"""The page of a gateway in a browser: loading, explanations, filters, login, reconnection."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser_support import OpenPage
from field import Field
from playwright.sync_api import Page, expect

from peel_gateway.fleet.folder import Fleet
from peel_tools.servers import free_port
from peel_tools.servers.gateway import GatewayProcess

MINUS = "\N{MINUS SIGN}"
TOKEN = "0123456789abcdef-token"


def number_in(page: Page) -> int:
    """Return the number of counted reports on the page."""
    found = re.match(r"([\d,]+) reports?", page.locator("#lede").inner_text())
    return int(found[1].replace(",", "")) if found else -1


def test_it_fills_by_itself_and_explains(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    page = open_page(gateway.url)
    expect(page.get_by_role("heading", name="No reports yet")).to_be_visible()
    expect(page.locator("#estimates")).to_be_hidden()
    expect(page.locator("#history")).to_be_hidden()
    expect(page.locator("#lede")).to_have_text(
        "No report counts yet. No device is exposed. 20 devices have not reported yet."
    )
    expect(page.locator("#light")).to_have_text("no report yet")
    field.publish(field.reports(400, devices=range(1, 20)))
    expect(page.locator("#lede")).to_have_text(
        "400 reports from 19 devices count. No device is exposed. 1 device has not reported yet."
    )
    expect(page.get_by_role("radio", name="24 h")).to_be_checked()
    rows = page.locator("#estimates-list > li")
    expect(rows).to_have_count(2)
    expect(rows.first.locator(".name")).to_have_text("temperature")
    expect(rows.first.locator("span.value")).to_have_text(re.compile(rf"^{MINUS}?\d"))
    expect(rows.first.locator(".rangebar")).to_have_attribute("aria-label", re.compile("temperature: .*95% interval"))
    expect(page.locator("#history-chart svg")).to_be_visible()
    expect(page.locator("#history-chart .band")).to_have_count(1)  # one moment has an interval too

    field.publish(field.reports(1, devices=[20], odds=(9, 3)))
    case = page.locator("#exposed-list .case")
    expect(case).to_contain_text("00000014")
    expect(case.locator(".sentence")).to_contain_text("It randomized its report with odds of")
    expect(page.locator("#lede")).to_have_text("400 reports from 19 devices count. 1 device is exposed.")
    page.get_by_role("link", name="1 device is exposed").click()
    expect(page).to_have_url(re.compile("#exposed$"))
    page.get_by_role("button", name="The evidence against 00000014").click()
    why = page.locator("#why")
    expect(why.locator("svg.stems")).to_have_count(2)
    why.get_by_text("The bytes").click()
    expect(why.get_by_role("row", name=re.compile("device 14000000 00000014"))).to_be_visible()

    page.locator("#details > summary").click()
    layer = page.locator("#layers-list > li", has_text="a changed epsilon")
    layer.locator("summary").click()
    expect(layer.get_by_text("Tossed with other odds than the profile's.")).to_be_visible()
    expect(layer.locator(".minus")).to_have_text(f"{MINUS}1")


def test_the_choice_of_figure_time_and_devices(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(200, devices=range(1, 20)))
    field.publish(field.reports(1, devices=[20], odds=(9, 3)))
    page = open_page(gateway.url)
    page.get_by_role("button", name="soil").click()
    expect(page.locator("#history-note")).to_contain_text("soil")
    expect(page.get_by_role("button", name="soil")).to_have_attribute("aria-pressed", "true")

    devices = page.locator("#devices-table tbody tr")
    expect(devices).to_have_count(20)
    page.get_by_label("State").select_option("exposed")
    expect(devices).to_have_count(1)
    expect(devices).to_contain_text("exposed: rule")
    page.get_by_label("State").select_option("")
    page.locator("#devices-find").fill("00001")
    expect(devices).to_have_count(6)  # 1, and 10 to 14
    page.get_by_role("button", name="00000014", exact=True).click()
    expect(page.locator(".detail")).to_contain_text("It randomized its report with odds of")
    page.get_by_role("button", name=re.compile("Evidence .* against 00000014")).click()
    expect(page.locator("#why-note")).to_contain_text("00000014")
    page.locator("#devices-find").fill("nobody")
    expect(devices).to_have_text("No such device.")

    page.get_by_role("radio", name="5 min").check()
    expect(page.locator("#estimates-note")).to_contain_text("200 reports of 19 devices")


def test_a_plan_is_asked_for_by_keyboard(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    page = open_page(gateway.url)
    details = page.locator("#details > summary")
    expect(details).to_be_visible()  # an element that is not shown yet takes no focus, and so no key
    details.press("Enter")
    said, devices = page.locator("#plan-said"), page.get_by_role("spinbutton", name="Devices")
    expect(devices).to_have_value("20")  # the fleet as it is
    expect(page.get_by_label("ε of a report")).to_have_value("1")
    expect(said).to_have_text(re.compile("^20 devices, a report every .* with ε 1: ±.* after a week"))
    # Panels above may still be filling, so it is not at whole pixels.
    below = "a => a.getBoundingClientRect().top - a.closest('.panel').getBoundingClientRect().top"
    place = page.locator("#plan-answer").evaluate(below)

    page.get_by_label("A report every").fill("1")
    page.get_by_label("Unit of the interval").select_option("h")
    devices.fill("200")
    devices.press("Enter")
    expect(said).to_have_text(re.compile("^200 devices, a report every 60\\s?min with ε 1: .*±4.4\\s?% after a day"))
    narrow = page.locator("#plan-accuracies").get_by_role("row", name=re.compile("^±5"))
    expect(narrow).to_have_text(re.compile("3,719.*19\\s?h"))
    expect(narrow).to_have_class("wanted")
    expect(page.locator("#plan-budgets").get_by_role("row", name="A day")).to_contain_text("24ε 24")
    expect(page.locator("#plan-insider")).to_contain_text("counts for up to 2.2 honest ones")
    expect(page.locator("#plan-advised")).to_be_hidden()

    devices.fill("")
    devices.press("Enter")
    expect(said).to_have_text(re.compile("^It takes 155 devices, "))
    page.get_by_label("ε of a report").fill("17")
    page.get_by_role("button", name="Calculate").press("Enter")
    expect(said).to_have_text("ε of a report: must be a number from 0.005 to 5.5.")
    expect(page.locator("#plan-answer")).to_be_hidden()
    page.get_by_label("ε of a report").fill("5")
    devices.fill("5")
    devices.press("Enter")
    expect(page.locator("#plan-advice li").first).to_contain_text("4 is enough")
    assert page.locator("#plan-answer").evaluate(below) == pytest.approx(place, abs=1)  # nothing jumped


def test_numbers_of_any_size_stay_short(field: Field, open_page: OpenPage) -> None:
    """Seconds since 1970 and millionths are columns of somebody's data, too."""
    page = open_page(field.new_gateway().start().url)
    said = page.evaluate(
        """async (figures) => {
            const { scaleOf } = await import("/page/format.js");
            return figures.map((figure) => {
                const { number, end, unit } = scaleOf(figure, false);
                return [number(figure.value), end(figure.range[0]), end(figure.range[1]), unit];
            });
        }""",
        [
            {"range": [1.693e9, 1.696e9], "low": 1.6941e9, "high": 1.6951e9, "value": 1694585871, "unit": "s"},
            {"range": [0, 2.5e-6], "low": 1e-6, "high": 1.1e-6, "value": 1.05e-6, "unit": ""},
            {"range": [-0.125, 1050], "low": 999.2, "high": 1009, "value": 1004.1, "unit": "hPa"},
        ],
    )
    assert said[0] == ["1.69459", "1.693", "1.696", "\N{MULTIPLICATION SIGN}10⁹\N{NARROW NO-BREAK SPACE}s"]
    assert said[1] == ["1.050", "0", "2.5", "\N{MULTIPLICATION SIGN}10⁻⁶"]
    assert said[2] == ["1,004.1", f"{MINUS}0.125", "1,050", "hPa"]


def test_who_has_no_token_learns_nothing(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway(http_token=TOKEN)
    gateway.start(until="started")
    gateway.wait_for(lambda: gateway.ask("/healthz"))
    page = open_page(gateway.url, tolerated="401 (Unauthorized)")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    expect(page.locator("#main")).to_be_hidden()
    assert "field" not in page.locator("body").inner_text().split()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("wrong token")).to_be_visible()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("#fleet")).to_have_text("field")
    assert page.evaluate("document.cookie") == ""
    page.reload()
    expect(page.locator("#fleet")).to_have_text("field")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_it_comes_back_with_the_gateway(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(100))
    page = open_page(gateway.url, tolerated="net::ERR_")
    expect(page.locator("#lede")).to_contain_text("100 reports")
    light = page.locator("#light")
    expect(light).to_contain_text("receiving")
    gateway.kill()
    expect(light).to_contain_text("connection lost")
    expect(page.locator("body")).to_have_attribute("data-state", "stale")
    assert number_in(page) == 100  # what was known stays
    field.publish(field.reports(50))
    gateway.start()
    expect(page.locator("body")).to_have_attribute("data-state", "live")
    expect(page.locator("#lede")).to_contain_text("150 reports")
    expect(light).to_contain_text("receiving")
    field.broker.stop()
    expect(light).to_contain_text("broker away")


def test_who_gets_no_stream_asks_instead(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway(http_streams=1).start()
    first = open_page(gateway.url)
    field.publish(field.reports(20))
    expect(first.locator("#light")).to_contain_text("lag")
    second = open_page(gateway.url, tolerated="503 (Service Unavailable)")
    expect(second.locator("#light")).to_contain_text("all event streams are taken")
    field.publish(field.reports(100))
    for page in (first, second):
        expect(page.locator("#lede")).to_contain_text("120 reports")


def test_a_fleet_without_devices_says_what_to_do(tmp_path: Path, open_page: OpenPage) -> None:
    Fleet.create(tmp_path / "fleet", "orchard")
    gateway = GatewayProcess(fleet=tmp_path / "fleet", folder=tmp_path, broker_port=free_port())
    gateway.start(until="answering")
    try:
        page = open_page(gateway.url, tolerated="net::ERR_")  # it ends before the page does
        expect(page.get_by_role("heading", name="No devices yet")).to_be_visible()
        expect(page.get_by_text("peel fleet add")).to_be_visible()
        expect(page.locator("#controls")).to_be_hidden()
        expect(page.locator("#light")).to_contain_text("broker away")
    finally:
        gateway.kill()
