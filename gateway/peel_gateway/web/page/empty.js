// SPDX-License-Identifier: MIT
// What to do where there is nothing to see yet.

import { byId, h, setHidden } from "./dom.js";

let shown = "";

export function showEmpty(page) {
	const { totals } = page.summary;
	const what = totals.devices === 0 ? "devices" : totals.accepted + totals.exposed === 0 ? "reports" : "";
	if (what === shown) return;
	shown = what;
	const box = byId("empty");
	setHidden(box, what === "");
	document.body.dataset.empty = what;
	if (what === "devices") {
		box.replaceChildren(
			h("h2", {}, "No devices yet"),
			h("p", {}, "This fleet has nobody in it. Two commands register a device and put it onto its board:"),
			h("pre", {}, h("code", {}, "peel fleet add FLEET --profile NAME\npeel fleet provision DEVICE --fleet FLEET --board pico_w")),
		);
	} else if (what === "reports") {
		box.replaceChildren(
			h("h2", {}, "No reports yet"),
			h("p", {}, "Devices are registered, and none has been heard. The first report shows up here by itself."),
			h("p", {}, "Without boards at hand, let simulated devices speak: ", h("code", {}, "peel simulate --help")),
		);
	}
}
