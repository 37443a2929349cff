// SPDX-License-Identifier: MIT
// The distribution of each reading with a ladder: the share of readings above every value, with its band, and some quantiles.

import { bandChart } from "./band.js";
import { byId, h, setHidden } from "./dom.js";
import { count, decimalsFor, fixed, percent, withUnit } from "./format.js";

const WIDEST = 0.25; // half an interval as a part of the range, as in the gateway's estimates
const PARTS = { 0.1: "10% of readings are at most", 0.5: "half are at most", 0.9: "90% are at most" };

// The median as a row of the estimates.
export function medianOf({ attribute, unit, range, n, quantiles }) {
	const { value, low, high } = quantiles.find(({ part }) => part === 0.5);
	const half = (high - low) / 2 / (range[1] - range[0]);
	return {
		...{ name: `${attribute}: median`, kind: "median", attribute, unit, range, n, value, low, high },
		...{ half_width: half, too_few: half > WIDEST, influence: null, withdrawn: 0 },
	};
}

function chart(item, truth) {
	const [begin, end] = item.range;
	const decimals = decimalsFor((end - begin) / 10);
	const ends = (at, value) => ({ at, value, low: value, high: value });
	const rungs = item.shares_above.map(({ threshold, value, low, high }) => ({ at: threshold, value, low, high }));
	return bandChart({
		points: [ends(begin, 1), ...rungs, ends(end, 0)],
		step: Infinity,
		marks: [],
		truth: truth.length ? [{ at: begin, value: 1 }, ...truth, { at: end, value: 0 }] : [],
		begin,
		end,
		low: 0,
		high: 1,
		number: percent,
		time: (at) => withUnit(fixed(at, decimals), item.unit),
		label: `Share of readings of ${item.attribute} above each value: ${rungs
			.map((rung) => `${percent(rung.value)} above ${fixed(rung.at, decimals)}`)
			.join(", ")}`,
	});
}

function sentence(item) {
	const known = item.quantiles.filter((each) => each.part in PARTS);
	const decimals = decimalsFor(Math.min(...known.map((each) => each.high - each.low)));
	const words = known.map(({ part, value, low, high }) => {
		const about = withUnit(fixed(value, decimals), item.unit);
		return `${PARTS[part]} ${about} (${fixed(low, decimals)} … ${fixed(high, decimals)})`;
	});
	return `${words.join(", ")}. n\u00a0${count(item.n)}`;
}

// Only in a demonstration: the true shares above the rungs.
function truthOf(page, { profile, estimates }, { attribute }) {
	const rungs = estimates.filter((figure) => figure.kind === "ladder" && figure.attribute === attribute);
	const found = rungs.map(({ name, threshold }) => ({ at: threshold, value: page.demo?.truth(profile, name) ?? null }));
	return found.filter(({ value }) => value !== null);
}

export function showDistributions(page, table) {
	const items = table.distributions;
	setHidden(byId("distributions"), !items.length);
	byId("distributions-list").replaceChildren(
		...items.map((item) =>
			h(
				"figure",
				{ class: "chart" },
				h("h3", {}, item.attribute.replaceAll("_", " "), h("small", {}, " share of readings above each value")),
				chart(item, truthOf(page, table, item)),
				h("figcaption", { class: "legend" }, sentence(item)),
			),
		),
	);
}
