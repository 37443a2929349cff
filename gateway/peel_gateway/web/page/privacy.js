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

// Questions that an attribute asks, each as often as its weight.
const slots = ({ thresholds, weight }) => weight * (thresholds?.length ?? 1);

// The share of all reports that are about one question of an attribute.
const shareOf = (attribute, { attributes }) =>
	attribute.weight / attributes.reduce((sum, each) => sum + slots(each), 0);

// Largest standard error of the mean of a device's reports about one attribute, as a part of the range; as in docs/privacy.md.
function errorAfter(reports, attribute, profile) {
	const { keep, change } = attribute;
	return (0.5 * ((keep + change) / (keep - change))) / Math.sqrt(reports * shareOf(attribute, profile));
}

// About how many reports it takes to tell a category that stays the same from another one.
function reportsToTellApart(attribute, profile) {
	const odds = attribute.keep / attribute.change;
	const symbols = attribute.symbols ?? attribute.categories.length;
	const kept = odds / (odds + symbols - 1);
	const other = attribute.kind === "hashed" ? 1 / symbols : (1 - kept) / (symbols - 1);
	const own = (SURE ** 2 * (kept * (1 - kept) + other * (1 - other))) / (kept - other) ** 2;
	return Math.ceil(own / shareOf(attribute, profile));
}

function overTime(profile, reports) {
	const means = profile.attributes.filter((each) => each.kind === "mean");
	const counted = profile.attributes.filter((each) => each.kind === "category" || each.kind === "hashed");
	return [
		means.length
			? `after a month at the full rate, a reading that stays the same is known with a standard error of at most ${percent(Math.min(...means.map((each) => errorAfter(reports, each, profile))))} of its range.`
			: "",
		counted.length ? categoryOverTime(profile, counted, means.length ? "A" : "a") : "",
		means.length + counted.length
			? ""
			: "whether a reading that stays the same is above a threshold becomes known, as for any answer that is asked for often.",
	]
		.filter(Boolean)
		.join(" ");
}

function categoryOverTime(profile, counted, article) {
	const needed = Math.min(...counted.map((each) => reportsToTellApart(each, profile)));
	if (needed > (profile.lifetime ?? Infinity))
		return `${article} category that stays the same would stand out after about ${count(needed)} reports; the lifetime ends before that.`;
	const time = duration((needed * profile.period) / profile.quota);
	return `${article} category that stays the same stands out after about ${count(needed)} reports, which take ${time} at the full rate.`;
}

export function showPrivacy(page) {
	const { profile } = page;
	if (!profile) return;
	const { quota, period, lifetime } = profile;
	const month = Math.min(Math.ceil((quota * MONTH) / period), lifetime ?? Infinity);
	const likelier = Math.max(...profile.attributes.map(({ keep, change }) => keep / change));
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
			"A report answers one question, which the report's number picked, with a sign or a category. ",
			"The device randomizes it: every reading can lead to every report.",
		),
		h("p", {}, h("strong", {}, "Reports add up:"), ` ${overTime(profile, month)} Fewer reports or a lifetime limit this.`),
		h("p", {}, h("strong", {}, "The gateway learns"), " means, shares and distributions over many reports, that a device reported, and when."),
		h(
			"p",
			{},
			h("strong", {}, "Not detected:"),
			" a sensor that lies about its own reading. Any other forgery is exposed, or its effect is bounded.",
		),
	);
}
