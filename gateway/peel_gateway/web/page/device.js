// SPDX-License-Identifier: MIT
// One device: its status messages, the verdicts on its reports, the evidence against it.

import { ask } from "./api.js";
import { h } from "./dom.js";
import { ago, count, exact } from "./format.js";

const term = (name, value) =>
	value === null || value === undefined || value === "" ? [] : [h("div", {}, h("dt", {}, name), h("dd", {}, value))];
const when = (moment) => (moment ? h("time", { datetime: moment, title: exact(moment) }, ago(moment)) : null);

// An audit or a challenge of verified coins that the device has not answered.
const stalled = ({ device, stalled: since }) =>
	since && [
		"It has not answered since ",
		h("time", { datetime: since }, exact(since)),
		". If it lost its flash, run ",
		h("code", {}, `peel gateway release ${device} --reason TEXT`),
	];

export async function deviceDetail(device, why) {
	const known = await ask(`/api/devices/${device}`);
	const claims = known.claims ?? {};
	const said = Object.entries(claims).filter(
		([name, value]) => name !== "heard" && value !== null && value !== "" && String(value) !== "",
	);
	return h(
		"div",
		{ class: "detail" },
		h(
			"dl",
			{ class: "facts" },
			term("note", known.note),
			term("registered", when(known.created)),
			term("tags", known.tags.join(", ")),
			term("first heard", when(known.first_received)),
			term("last number", known.last_number === null ? null : count(known.last_number)),
			term(
				"reports",
				Object.entries(known.reports)
					.map(([verdict, n]) => `${verdict} ${count(n)}`)
					.join(", "),
			),
			term("held reports", known.held === null ? null : count(known.held)),
			term("stalled", stalled(known)),
			term("says of itself", said.map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ")),
			known.audit.map((entry) => term(entry.action === "release" ? "released" : "pardoned", `${ago(entry.time)} by ${entry.who}: ${entry.reason}`)),
		),
		known.against.length === 0
			? h("p", { class: "none" }, "There is no evidence against it.")
			: h(
					"ol",
					{ class: "against" },
					known.against.map((piece) =>
						h(
							"li",
							{},
							h("span", { class: "verdict" }, piece.verdict),
							piece.sentence,
							" ",
							h(
								"button",
								{
									class: "link",
									"aria-label": `Evidence ${piece.id} against ${device}`,
									onclick: () => why.show(piece.id, true),
								},
								"evidence",
							),
						),
					),
				),
	);
}
