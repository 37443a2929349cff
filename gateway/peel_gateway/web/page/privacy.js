// SPDX-License-Identifier: MIT
// What the chosen profile costs its devices' owners, and what nobody learns.

import { isDemo } from "./demo.js";
import { byId, h } from "./dom.js";
import { count, duration, epsilon, fixed } from "./format.js";

const term = (name, value, note) =>
	h("div", {}, h("dt", {}, name), h("dd", {}, h("strong", {}, value), h("span", {}, note)));

export function showPrivacy(page) {
	const { profile } = page;
	if (!profile) return;
	const what =
		profile.mechanism === "harmony" ? "one sign about one attribute, which the report's number picked" : "one category";
	const lifetime =
		profile.lifetime === undefined || profile.lifetime === null
			? term("Lifetime", "no limit", "set lifetime in the profile to have one")
			: term(
					"Lifetime",
					epsilon(profile.epsilon * profile.lifetime),
					`${count(profile.lifetime)} reports, then the device stops by itself`,
				);
	byId("privacy-body").replaceChildren(
		h(
			"dl",
			{ class: "terms" },
			term(
				"A report",
				epsilon(profile.epsilon),
				`changes anybody's odds about a reading by at most ${fixed(Math.exp(profile.epsilon), 2)} to 1`,
			),
			term(
				`Any ${duration(profile.period)}`,
				epsilon(profile.epsilon * profile.quota),
				`at most ${count(profile.quota)} reports${isDemo(page) ? "; a demonstration is in a hurry" : ""}`,
			),
			lifetime,
		),
		h(
			"p",
			{},
			`A report says ${what}, and says it wrongly often enough that nobody can be sure: no reader of it, this gateway included, ever sees a reading.`,
		),
		h(
			"p",
			{},
			h("strong", {}, "The gateway cannot learn"),
			" what any sensor measured at any time. It learns means over many reports, that a device reported, and when.",
		),
		h(
			"p",
			{},
			h("strong", {}, "Nobody can see"),
			" a sensor that lies about its own reading. All else that a device does wrong is exposed, or bounded until it is.",
		),
	);
}
