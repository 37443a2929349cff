// SPDX-License-Identifier: MIT
// The headline and the status light.

import { byId, h, setHidden, setText } from "./dom.js";
import { count, duration, plural } from "./format.js";

const counted = h("span", {});
const accused = h("a", { href: "#exposed" });
const quiet = h("span", {});
const waiting = h("span", {});
const rest = h("span", {});
let heard = 0;
let lost = ""; // why there is no new data

function light(kind, text) {
	const element = byId("light");
	element.dataset.light = kind;
	setText(element, text);
	setText(byId("spoken"), text.replace(/[\d.]+\s?(s|min|h|d)\b/g, "")); // read out when it changes, not every second
}

export function showHeader(page) {
	const { summary } = page;
	const { totals, broker, inbox, health, devices, accident } = summary;
	heard = Date.now();
	lost = "";
	document.title = `Peel · ${summary.fleet}`;
	setText(byId("fleet"), summary.fleet);
	const counting = totals.accepted - totals.withdrawn_past;
	const honest = devices.heard - totals.withdrawn_devices;
	const who = plural(totals.exposed_devices, "device is", "devices are");
	const whose = totals.exposed_devices === 1 ? "its" : "their";
	const past = totals.withdrawn_past;
	const withdrawn = past ? `; ${count(past)} of ${whose} reports ${past === 1 ? "was" : "were"} withdrawn.` : ".";
	if (totals.devices === 0) setText(byId("lede"), "No device is registered.");
	else {
		const none = totals.exposed_devices === 0;
		const sum = counting ? `${plural(counting, "report")} from ${plural(honest, "device")} count.` : "No report counts yet.";
		setText(counted, `${sum} ${none ? "No device is exposed." : ""}`);
		setText(accused, none ? "" : `${who} exposed`);
		setText(quiet, unheard(devices.states));
		setText(waiting, unopened(devices));
		if (!byId("lede").contains(counted)) byId("lede").replaceChildren(counted, accused, rest, quiet, waiting);
		setText(rest, none ? "" : withdrawn);
	}
	if (!broker.connected) light("bad", `broker away for ${duration(broker.away_seconds ?? 0)}; reports wait there`);
	else if (health.length) light("bad", "needs attention");
	else if (!devices.last_report) light("unknown", "no report yet");
	else if (devices.silent_seconds !== null) light("bad", `silent for ${duration(devices.silent_seconds)}`);
	else if (page.polling) light("good", "receiving · all event streams are taken, so this page polls");
	else light("good", `receiving · lag ${inbox.oldest_seconds.toFixed(1)} s`);
	setText(byId("health"), health.join(" · "));
	setHidden(byId("health"), health.length === 0);
	showAccident(accident);
}

// Devices that do not report, in words: " 3 devices are silent, 1 has a failing sensor."
function unheard(states) {
	const parts = [
		[states.silent, "is silent", "are silent"],
		[states["sensor failing"], "has a failing sensor", "have a failing sensor"],
		[states.stopped, "has too little randomness to report", "have too little randomness to report"],
		[states.new, "has not reported yet", "have not reported yet"],
	].filter(([n]) => n);
	const told = parts.map(([n, one, many], place) =>
		place ? `${count(n)} ${n === 1 ? one : many}` : `${plural(n, "device")} ${n === 1 ? one : many}`,
	);
	return told.length ? ` ${told.join(", ")}.` : "";
}

// Verified coins, in words: " 12 reports wait for their coins to be opened. 1 device is stalled."
function unopened({ held_reports: held, stalled_devices: stalled }) {
	const reports = held === 1 ? "1 report waits for its coin" : `${count(held ?? 0)} reports wait for their coins`;
	const devices = plural(stalled ?? 0, "device is", "devices are");
	return `${held ? ` ${reports} to be opened.` : ""}${stalled ? ` ${devices} stalled.` : ""}`;
}

function showAccident(accident) {
	const box = byId("accident");
	setText(box.querySelector("p"), accident?.sentence ?? "");
	setText(box.querySelector("code"), accident?.command ?? "");
	setHidden(box, !accident);
}

export function showLost(cause = heard ? "connection lost" : "the gateway does not respond") {
	lost = cause;
	tick();
}

// The old data stays on the page, with its age.
function tick() {
	if (!lost) return;
	const age = heard ? ` · data of ${duration((Date.now() - heard) / 1000)} ago` : "";
	light("bad", `${lost}${age} · trying again`);
}

setInterval(tick, 1000);
