// SPDX-License-Identifier: MIT
// The privacy budget of the chosen profile, and what many reports reveal together.

import { isDemo } from "./demo.js";
import { byId, h } from "./dom.js";
import { count, duration, epsilon, fixed, percent, plural, short } from "./format.js";

const MONTH = 30 * 86400;
const SURE = 5; // standard deviations at which one category stands out from another

const term = (name, value, note) =>
	h("div", {}, h("dt", {}, name), h("dd", {}, h("strong", {}, value), h("span", {}, note)));

const budget = (value) => (value < 1000 ? epsilon(value) : `ε ${short(value)}`);

// Largest standard error of the mean of a device's reports about one attribute, as a part of the range; as in docs/privacy.md.
function errorAfter(reports, { epsilon: each, attributes }) {
	const cap = (Math.exp(each) + 1) / (Math.exp(each) - 1);
	return (0.5 * cap) / Math.sqrt(reports / attributes.length);
}

// About how many reports it takes to tell a category that stays the same from another one.
function reportsToTellApart({ epsilon: each, k, mechanism }) {
	const kept = Math.exp(each) / (Math.exp(each) + k - 1);
	const other = mechanism === "hashing" ? 1 / k : (1 - kept) / (k - 1);
	return Math.ceil((SURE ** 2 * (kept * (1 - kept) + other * (1 - other))) / (kept - other) ** 2);
}

function overTime(profile, numeric, reports) {
	if (numeric)
		return `after a month at the full rate, a reading that stays the same is known with a standard error of at most ${percent(errorAfter(reports, profile))} of its range.`;
	const needed = reportsToTellApart(profile);
	if (needed > (profile.lifetime ?? Infinity))
		return `a category that stays the same would stand out after about ${count(needed)} reports; the lifetime ends before that.`;
	const time = duration((needed * profile.period) / profile.quota);
	return `a category that stays the same stands out after about ${count(needed)} reports, which take ${time} at the full rate.`;
}

export function showPrivacy(page) {
	const { profile } = page;
	if (!profile) return;
	const { quota, period, lifetime } = profile;
	const numeric = profile.mechanism === "harmony";
	const month = Math.min(Math.ceil((quota * MONTH) / period), lifetime ?? Infinity);
	const likelier = Math.exp(profile.epsilon);
	byId("privacy-body").replaceChildren(
		h(
			"dl",
			{ class: "terms" },
			term(
				"One report",
				epsilon(profile.epsilon),
				`makes any guess at most ${fixed(likelier, likelier < 10 ? 1 : 0)} times likelier`,
			),
			term(
				`Any ${duration(period)}`,
				budget(profile.epsilon * quota),
				`at most ${plural(quota, "report")}${isDemo(page) ? "; a demonstration is in a hurry" : ""}`,
			),
			term("A month", budget(profile.epsilon * month), `at most ${plural(month, "report")}`),
			lifetime
				? term("Lifetime", budget(profile.epsilon * lifetime), `${count(lifetime)} reports, then the device stops`)
				: term("Lifetime", "no limit", "set lifetime in the profile to have one"),
		),
		h(
			"p",
			{},
			`A report says ${numeric ? "one sign about one attribute, which the report's number picked" : "one category"}. `,
			"The device randomizes it: every reading can lead to every report.",
		),
		h("p", {}, h("strong", {}, "Reports add up:"), ` ${overTime(profile, numeric, month)} Fewer reports or a lifetime limit this.`),
		h("p", {}, h("strong", {}, "The gateway learns"), " means over many reports, that a device reported, and when."),
		h(
			"p",
			{},
			h("strong", {}, "Not detected:"),
			" a sensor that lies about its own reading. Any other forgery is exposed, or its effect is bounded.",
		),
	);
}
