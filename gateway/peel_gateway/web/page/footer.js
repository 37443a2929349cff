// SPDX-License-Identifier: MIT
// Version, size of the store, and the paths of the API.

import { byId, h, setText } from "./dom.js";
import { bytes, duration } from "./format.js";

export function showFooter(page) {
	const { version, uptime_seconds: uptime, store, totals } = page.summary;
	const growth =
		store.bytes_per_day === null
			? ""
			: `, ${store.bytes_per_day < 0 ? "shrinking" : "growing"} by ${bytes(Math.abs(store.bytes_per_day))} a day`;
	setText(
		byId("about"),
		`Peel ${version} · up for ${duration(uptime)} · store ${bytes(store.bytes)}${growth} · ${bytes(totals.quarantined_bytes)} of evidence kept`,
	);
	const list = byId("paths");
	if (list.childElementCount) return;
	list.append(
		...page.paths.map(({ path, methods, what }) =>
			h(
				"div",
				{},
				h(
					"dt",
					{},
					methods.includes("GET") && !path.includes("{")
						? h("a", { href: path }, path)
						: `${methods.includes("GET") ? "" : "POST "}${path}`,
				),
				h("dd", {}, what.replaceAll("`", "")),
			),
		),
	);
}
