// SPDX-License-Identifier: MIT
// Instructions for a fleet without devices or reports.

import { byId, h, setHidden } from "./dom.js";

let shown = "";

export function showEmpty(page) {
	const { totals, devices } = page.summary;
	const silent = totals.accepted + totals.exposed + (devices.held_reports ?? 0) === 0;
	const what = totals.devices === 0 ? "devices" : silent ? "reports" : "";
	if (what === shown) return;
	shown = what;
	const box = byId("empty");
	setHidden(box, what === "");
	document.body.dataset.empty = what;
	if (what === "devices") {
		box.replaceChildren(
			h("h2", {}, "No devices yet"),
			h("p", {}, "Name broker, Wi-Fi and sensors in FLEET/template.json (docs/tutorial.md). Then register a device and provision its board:"),
			h("pre", {}, h("code", {}, "peel fleet add FLEET --profile NAME\npeel fleet provision DEVICE --fleet FLEET --board pico_w")),
		);
	} else if (what === "reports") {
		box.replaceChildren(
			h("h2", {}, "No reports yet"),
			h("p", {}, "Devices are registered, but none has reported. The first report appears here by itself."),
			h("p", {}, "Without boards, watch a simulated fleet: ", h("code", {}, "peel demo")),
		);
	}
}
