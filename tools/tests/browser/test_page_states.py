# SPDX-License-Identifier: MIT
"""The page in difficult states: slow, refused, quiet, crowded, narrow, printed, by keyboard."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_support import OpenPage
from field import Field, fake_clock
from playwright.sync_api import Page, Route, expect

LONG = "donaudampfschifffahrtskapitaen"
NARROW = 320
UNREADABLE = json.dumps({"error": "the store cannot be read: it is away"})


def refuse(route: Route) -> None:
    """As the gateway does where its store fails."""
    route.fulfill(status=503, content_type="application/json", body=UNREADABLE)


def sideways(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_every_panel_says_that_it_is_asking(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(100))
    page = open_page("about:blank")
    held: list[Route] = []
    slow = True
    page.route(
        re.compile("/api/(estimates|exposed|devices)"),
        lambda route: held.append(route) if slow else route.continue_(),
    )
    page.goto(gateway.url)
    for panel in ("estimates-list", "history-chart", "exposed-list", "why-body", "devices-table"):
        expect(page.locator(f"#{panel}")).to_contain_text("Loading …")
    slow = False
    for route in held:
        route.continue_()
    expect(page.locator("#estimates-list .estimate")).to_have_count(2)
    expect(page.locator("#devices-table tbody tr")).to_have_count(20)
    expect(page.get_by_text("Loading …")).to_have_count(0)


def test_one_panel_that_fails_does_not_stop_the_others(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(100))
    page = open_page("about:blank", tolerated="503 (Service Unavailable)")
    page.route("**/api/estimates*", refuse)
    page.goto(gateway.url)
    expect(page.get_by_role("alert").filter(has_text="the store cannot be read: it is away")).to_be_visible()
    expect(page.locator("#devices-table tbody tr")).to_have_count(20)
    page.unroute("**/api/estimates*")
    field.publish(field.reports(20))
    expect(page.locator("#estimates-list .estimate")).to_have_count(2)
    expect(page.locator("#trouble")).to_be_hidden()


def test_a_history_is_drawn_as_what_it_is_of(field: Field, open_page: OpenPage) -> None:
    """Not on the axis of what was chosen while it was asked for; and on a whole one where it is beyond all that is possible."""
    gateway = field.new_gateway().start()
    field.publish(field.reports(100))
    page = open_page(gateway.url)
    expect(page.locator("#history-chart svg")).to_be_visible()
    drawn = """async (name) => {
        const { History } = await import("/page/history.js");
        const figure = { name: "temperature", range: [-10, 50], unit: "°C" };
        const history = new History({ profile: { name: "climate" }, paths: [] }, { figure, categorical: false, label: () => "" });
        Object.assign(history, { of: { profile: "climate", name }, bucket: 5, begin: 1, end: 11 });
        const estimates = [{ value: 990, low: 980, high: 1000, n: 7 }];
        history.items = [{ start: "1970-01-01T00:00:05Z", estimates }];
        document.getElementById("history-chart").replaceChildren();
        history.show();
        return Array.from(document.querySelectorAll("#history-chart rect"), (band) => band.height.baseVal.value);
    }"""
    assert page.evaluate(drawn, "pressure") == []
    (height,) = page.evaluate(drawn, "temperature")
    assert height > 0


def test_a_history_that_was_drawn_stays_true_while_another_is_asked_for(field: Field, open_page: OpenPage) -> None:
    """A longer time has longer stretches; what is drawn again meanwhile, with news of exposed devices, has its own."""
    page = open_page(field.new_gateway().start().url)
    notes = """async () => {
        const { History } = await import("/page/history.js");
        const figure = { name: "temperature", range: [-10, 50], unit: "°C" };
        const store = { first_received: "1970-01-01T00:00:00Z", bucket_seconds: 5 };
        const shown = { profile: { name: "climate" }, tag: null, seconds: 60, summary: { store }, paths: [] };
        const history = new History(shown, { figure, name: "temperature", categorical: false, label: () => "temperature" });
        const note = () => document.getElementById("history-note").textContent;
        const answers = [];
        window.fetch = () => new Promise((resolve) => answers.push(() => resolve(Response.json({ items: [] }))));
        const first = history.refresh();
        answers.pop()();
        await first;
        const found = [note()];
        shown.seconds = 86400;
        history.refresh(); // to which nobody answers
        history.show();
        found.push(note());
        shown.tag = "roof";
        document.getElementById("history-note").textContent = "untouched";
        history.show();
        return [...found, note()];
    }"""
    assert page.evaluate(notes) == [*2 * ["temperature, °C, per 5\u202fs"], "untouched"]


def test_an_unreadable_store_is_told_and_over(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(100))
    page = open_page("about:blank", tolerated="503 (Service Unavailable)")
    page.route("**/api/profiles", refuse)
    page.goto(gateway.url)
    light, trouble = page.locator("#light"), page.locator("#trouble")
    expect(light).to_have_text("the gateway refused · trying again")
    expect(trouble).to_have_text("the store cannot be read: it is away")
    page.unroute("**/api/profiles")
    expect(light).to_contain_text("receiving")
    expect(trouble).to_be_hidden()

    said = 'event: trouble\ndata: {"error": "it is away"}\n\n'
    page.route("**/api/events", lambda route: route.fulfill(content_type="text/event-stream", body=said))
    page.route("**/api/summary", refuse)
    page.reload()
    expect(trouble).to_contain_text("it is away")
    expect(light).to_have_attribute("data-light", "bad")
    expect(page.locator("body")).not_to_have_attribute("data-state", "live")
    page.unroute_all()
    expect(light).to_contain_text("receiving")
    expect(trouble).to_be_hidden()


def with_summary(page: Page, table: object) -> None:
    """Let the page hear a summary of our own, over and over."""
    said = f"event: summary\ndata: {json.dumps(table)}\n\n"
    page.route("**/api/events", lambda route: route.fulfill(content_type="text/event-stream", body=said))
    page.route("**/api/summary", lambda route: route.fulfill(json=table))


def test_silence_does_not_look_healthy(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(200))
    field.wait_accepted(gateway, 200)
    table = gateway.summary()
    assert (table["devices"]["states"]["active"], table["devices"]["silent_seconds"]) == (20, None)
    page = open_page("about:blank")
    table["devices"]["states"] |= {"active": 0, "silent": 18, "sensor failing": 1, "new": 1}
    table["devices"]["silent_seconds"] = 1200.0
    with_summary(page, table)
    page.goto(gateway.url)
    light = page.locator("#light")
    expect(light).to_have_text("silent for 20\u202fmin")
    expect(light).to_have_attribute("data-light", "bad")
    expect(page.locator("#lede")).to_have_text(
        "200 reports from 20 devices count. No device is exposed. "
        "18 devices are silent, 1 has a failing sensor, 1 has not reported yet."
    )


def test_no_value_is_shown_while_reports_are_too_few(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(1))
    page = open_page(gateway.url)
    rows = page.locator("#estimates-list > li")
    expect(rows).to_have_count(2)
    reported = rows.filter(has=page.locator(".n", has_text=re.compile("^n 1$")))
    expect(reported.locator("span.value")).to_have_text("too few reports")
    expect(reported.locator(".interval")).to_have_text("")
    expect(reported.locator("svg.rangebar > svg.value")).to_have_attribute("visibility", "hidden")
    expect(reported.locator(".few").last).to_contain_text(re.compile("a value in about .*, ±5\\s?% in about "))
    field.publish(field.reports(400))
    expect(rows.first.locator("span.value")).to_have_text(re.compile(r"\d$"))


def test_a_failing_sensor_is_named_in_the_list(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    status = json.dumps({"state": "online", "failing": "soil: it gave nan"}).encode()
    field.publish([(field.topic(7).removesuffix("report") + "status", status), *field.reports(20, devices=[1, 2])])
    page = open_page(gateway.url)
    row = page.locator("#devices-table tbody tr", has_text="00000007")
    expect(row).to_contain_text("sensor failing: soil: it gave nan")
    expect(page.locator("#lede")).to_contain_text("1 device has a failing sensor, 17 have not reported yet.")
    page.get_by_label("State").select_option("sensor failing")
    expect(page.locator("#devices-table tbody tr")).to_have_count(1)


def test_many_exposed_at_once_are_called_an_accident(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(20))
    field.publish(field.reports(4, devices=[1, 2, 3, 4], odds=(5, 1)))
    page = open_page(gateway.url)
    expect(page.locator("#lede")).to_contain_text("4 devices are exposed")
    expect(page.locator("#accident")).to_be_hidden()
    field.publish(field.reports(1, devices=[5], odds=(5, 1)))
    expect(page.locator("#accident")).to_contain_text("5 of 20 devices were exposed for the same cause (rule)")
    expect(page.locator("#accident")).to_contain_text("looks like an accident")
    command = page.locator("#accident code").inner_text()
    assert command == gateway.summary()["accident"]["command"]
    listed = gateway.command("exposures")
    assert command in listed.stderr and "looks like an accident" in listed.stderr
    done = gateway.command(*command.split()[2:], "--yes")
    assert done.returncode == 0 and "5 pardoned" in done.stdout
    field.publish(field.reports(20, devices=range(6, 20)))
    expect(page.locator("#accident")).to_be_hidden()


def test_a_gap_is_drawn_as_a_gap(field: Field, open_page: OpenPage) -> None:
    page = open_page(field.new_gateway().start().url)
    drawn = """async (times) => {
        const { bandChart } = await import("/page/band.js");
        const points = times.map((at) => ({ at, value: 5, low: 4, high: 6 }));
        const chart = bandChart({
            points, step: 300, marks: [], truth: [], begin: 0, end: 9000, low: 0, high: 10, number: String, time: String, label: "",
        });
        return ["path.line", "path.band", "rect.band"].map((each) => chart.querySelectorAll(each).length);
    }"""
    assert page.evaluate(drawn, [300, 600, 900, 1200]) == [1, 1, 0]
    assert page.evaluate(drawn, [300, 600, 3600, 3900]) == [2, 2, 0]
    assert page.evaluate(drawn, [300, 600, 3600, 6000, 6300]) == [2, 2, 1], "one stretch alone is no line"
    assert page.evaluate(drawn, []) == [0, 0, 0]


def test_silence_is_news(field: Field, open_page: OpenPage) -> None:
    """Times keep growing without new reports: a device that fell silent at night must not look as if just last_report."""
    gateway = field.new_gateway().start()
    field.publish(field.reports(20))
    page = open_page(gateway.url)
    last_report = page.locator("#devices-table tbody tr").first.locator("time")
    expect(last_report).to_have_text(re.compile("just now|ago"))
    expect(last_report).to_have_text(re.compile(r"^(\d\d\ss|\d.*min) ago"))


def test_a_crowd_is_searched_to_its_end(field: Field, open_page: OpenPage) -> None:
    field.fleet.enrol("climate", count=70)
    field.fleet.annotate(90, f"{LONG}s-mast, " + "behind the chimney " * 8)
    field.fleet.tag([90], add=[LONG, "北棟", "Dach & <i>"])
    page = open_page(field.new_gateway().start().url, width=NARROW, scheme="dark")
    devices = page.locator("#devices-table tbody tr")
    expect(devices).to_have_count(50)
    for wanted in (LONG.upper(), "0005a"):
        page.locator("#devices-find").fill(wanted)
        expect(devices).to_have_count(1)
        expect(devices).to_contain_text("0000005a")
        expect(page.locator("#devices-note")).to_have_text("1 that fit of 90")
        page.locator("#devices-find").fill("")
        expect(devices).to_have_count(50)
    for tag in ("北棟", "Dach & <i>", LONG):
        page.get_by_label("Tag").select_option("")
        expect(devices).to_have_count(50)
        page.get_by_label("Tag").select_option(label=f"{tag} (1)")
        expect(devices).to_have_count(1)
    devices.get_by_role("button").click()
    expect(page.locator(".detail")).to_contain_text(f"{LONG}s-mast")
    expect(page.locator(".detail")).to_contain_text(f"Dach & <i>, {LONG}, 北棟")
    outside = "d => d.getBoundingClientRect().right - d.closest('.scroll').getBoundingClientRect().right"
    for width in (NARROW, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert sideways(page) == 0
        assert page.locator(".detail").evaluate(outside) <= 1


def test_news_leave_the_keyboard_where_it_is(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(40, devices=range(1, 20)))
    field.publish(field.reports(1, devices=[20], odds=(9, 3)))
    page = open_page(gateway.url)
    page.get_by_role("button", name="00000014", exact=True).press("Enter")
    evidence = page.get_by_role("button", name=re.compile("^Evidence .* against 00000014"))
    evidence.focus()
    count = page.locator("#devices-table tbody tr").first.locator("td").nth(2)
    expect(count).to_have_text(re.compile("^[23]$"))
    field.publish(field.reports(190, devices=range(1, 20)))
    expect(count).to_have_text(re.compile("^1[23]$"))
    expect(evidence).to_be_focused()
    page.get_by_role("button", name="00000014", exact=True).press("Enter")
    expect(evidence).to_have_count(0)


def test_a_session_that_ends_says_so(field: Field, open_page: OpenPage) -> None:
    token = "0123456789abcdef-token"
    gateway = field.new_gateway(http_token=token)
    gateway.start(until="started")
    gateway.wait_for(lambda: gateway.ask("/healthz"))
    page = open_page(gateway.url, tolerated="401 (Unauthorized)")
    lede = page.locator("#lede")
    expect(lede).to_have_text(re.compile("^Log in with the token"))
    page.get_by_label("Token").fill(token)
    page.get_by_label("Token").press("Enter")
    expect(page.locator("#devices-table tbody tr")).to_have_count(20)
    page.context.clear_cookies()
    field.publish(field.reports(20))
    expect(lede).to_have_text(re.compile("^The session has ended. "))
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page.locator("#main")).to_be_hidden()


def test_a_plan_of_nonsense_is_refused_in_the_words_of_the_form(field: Field, open_page: OpenPage) -> None:
    page = open_page(field.new_gateway().start().url)
    said, devices, accuracy = page.locator("#plan-said"), page.locator("#plan-devices"), page.locator("#plan-accuracy")
    expect(devices).to_have_value("20")
    page.locator("#details > summary").click()
    accuracy.fill("150")
    accuracy.press("Enter")
    expect(said).to_have_text("Accuracy ±%: must be a number from 0.0001 to 100.")
    expect(accuracy).to_be_focused()
    accuracy.fill("5")
    devices.fill("")
    devices.press_sequentially("e-")  # a browser takes that for nothing at all
    devices.press("Enter")
    expect(said).to_have_text("Devices: must be a whole number from 1 to 1,000,000,000.")
    devices.fill("200")
    devices.press("Enter")
    expect(said).to_contain_text("200 devices, a report every")
    expect(page.locator("#plan [aria-invalid=true]")).to_have_count(0)


def test_the_privacy_panel_says_what_adds_up(field: Field, open_page: OpenPage) -> None:
    page = open_page(field.new_gateway().start().url)
    panel = page.locator("#privacy-body")
    expect(panel).to_contain_text("makes any guess at most 2.7 times likelier")
    odds = {"keep": 8, "change": 3}
    mean: dict[str, object] = {"kind": "mean", "weight": 1, **odds}
    door: dict[str, object] = {"kind": "category", "weight": 1, "categories": ["a", "b", "c", "d"], **odds}
    steps: dict[str, object] = {"kind": "ladder", "weight": 1, "thresholds": [1, 2, 3], **odds}
    profiles: list[tuple[dict[str, object], str]] = [
        # docs/privacy.md: 0.651 of 125 after a month
        ({"attributes": [mean]}, "a standard error of at most 0.53\\s%"),
        ({"attributes": [mean] * 4}, "a standard error of at most 1.1\\s%"),
        ({"attributes": [mean, steps]}, "a standard error of at most 1.1\\s%"),
        ({"attributes": [door]}, "after about 114 reports, which take 114\\smin"),
        ({"attributes": [mean, door]}, "of its range\\. A category .* after about 228 reports"),
        ({"attributes": [door], "lifetime": 80}, "about 114 reports; the lifetime ends before that"),
        ({"attributes": [steps]}, "whether a reading that stays the same is above a threshold becomes known"),
    ]
    for profile, said in profiles:
        page.evaluate(
            """async (profile) => {
                const { showPrivacy } = await import("/page/privacy.js");
                showPrivacy({ profile: { epsilon: 1, quota: 1, period: 60, ...profile }, paths: [] });
            }""",
            profile,
        )
        expect(panel).to_have_text(re.compile(said))


def test_paper_has_all_rows_and_no_night(field: Field, open_page: OpenPage) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(40))
    page = open_page(gateway.url, scheme="dark")
    expect(page.locator("#devices-table tbody tr")).to_have_count(20)
    page.emulate_media(media="print", color_scheme="dark")
    table = page.get_by_role("region", name="Table of devices")
    assert table.evaluate("t => t.scrollHeight - t.clientHeight") <= 1
    assert page.locator("body").evaluate("b => getComputedStyle(b).backgroundColor") == "rgb(250, 249, 246)"
    expect(page.locator("#plan")).to_be_hidden()


def test_changes_are_told_with_their_intervals(
    field: Field, open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temperature rises and the soil dries: half an hour apart, on a clock that is put forward."""
    set_clock = fake_clock(tmp_path, monkeypatch)
    set_clock("-90m")
    gateway = field.new_gateway().start()
    field.publish(field.reports(600, readings=(-20000, 20000)))
    field.wait_accepted(gateway, 600)
    set_clock("+0d")
    field.publish(field.reports(600, readings=(20000, -20000)))
    field.wait_accepted(gateway, 1200)
    page = open_page(gateway.url)
    legend, rows = page.locator("#change-legend"), page.locator("#change-list > li")
    expect(page.locator("#change-note")).to_have_text("the last 24\u202fh against the 24\u202fh before")
    expect(legend).to_have_text("Nothing to compare: no report counts in the 24\u202fh before the last 24\u202fh.")
    expect(rows).to_have_count(0)
    page.get_by_role("radio", name="all").check()
    expect(page.locator("#change")).to_be_hidden()
    page.get_by_role("radio", name="1 h").check()
    amount = "\\d.*\\(\\d.* … \\d.*\\)"
    expect(rows).to_have_text(
        [re.compile(f"▲ temperature rose by {amount}|▼ soil fell by {amount}"), re.compile(" by ")]
    )
    expect(rows.filter(has_text="▲ temperature rose by ")).to_have_count(1)
    expect(rows.filter(has_text="▼ soil fell by ")).to_have_count(1)
    expect(legend).to_have_text("Of 20 estimates that did not change, chance shows about one.")
    (told,) = gateway.get("/api/change?window=1h")["items"]
    for row, truth in zip(told["changes"], (60 * 20000 / 32768, -20000 / 32768), strict=True):
        for found in (row, row["over_devices"]):
            reach = 2.2 * max(found["value"] - found["low"], found["high"] - found["value"])
            assert found["visible"] and abs(found["value"] - truth) < reach


def test_alerts_are_listed_with_their_state(field: Field, open_page: OpenPage) -> None:
    rule = 'profile = "climate"\nfigure = "temperature"\nwindow = "1h"\n'
    field.write_alerts(
        f'name = "warm"\n{rule}above = 0',
        f'name = "icy"\n{rule}below = 0',
        f'name = "moved"\n{rule}changed = 5',
        f'name = "cellar"\n{rule}tag = "cellar"\nabove = 0',
    )
    gateway = field.new_gateway(publish_seconds=0.5).start()
    field.publish(field.reports(1500))
    page = open_page(gateway.url)
    rows = page.locator("#alerts-list > li")
    expect(rows).to_have_count(4)
    expect(page.locator("#alerts-note")).to_have_text("1 of 4 alerts active")
    expect(rows.first).to_contain_text("▲ active")
    expect(rows.first.locator(".sentence")).to_have_text(
        re.compile(r"^temperature of climate above 0\sdegC in 1h: \d.*\sdegC \(\d.* … \d.*\), n\s[67]\d\d$")
    )
    expect(rows.first.locator("time")).to_have_text(re.compile("^since \\d"))
    expect(rows.filter(has_text="cellar").locator(".sentence")).to_contain_text("no device has 'cellar'")
    expect(rows.filter(has_text="moved").locator(".sentence")).to_contain_text("one of the two windows has no report")
    for width in (1280, NARROW):
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page, "#alerts")
            assert found.violations_count == 0, f"{width} {scheme}: {found.generate_report()}"
            assert sideways(page) <= 0
    items = gateway.get("/api/alerts")["items"]
    assert [(each["alert"], each["state"]) for each in items] == [
        *(("warm", "active"), ("cellar", "unknown"), ("icy", "inactive"), ("moved", "inactive"))
    ]
    assert items[0]["low"] > 0 and items[0]["threshold"] == 0 and items[0]["since"] is not None
