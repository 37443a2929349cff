// SPDX-License-Identifier: MIT
// The estimates that changed between the chosen stretch of time and the one before it.

import { ask } from "./api.js";
import { byId, h, reconcile, setHidden, setText } from "./dom.js";
import { duration, isShare, plural, scaleOf, withUnit } from "./format.js";

const MOST = 8;
const TOP = 12; // of each list of categories: among more, chance alone would show some

export class Change {
	constructor(page, estimates) {
		this.page = page;
		this.estimates = estimates;
	}

	async refresh() {
		const { profile, tag, seconds } = this.page;
		setHidden(byId("change"), !profile || seconds === null);
		if (!profile || seconds === null) return;
		const window = seconds < 3600 ? `${seconds / 60}min` : `${seconds / 3600}h`;
		const asked = { profile: profile.name, tag, window, top: TOP, devices: "no" };
		const { items } = await ask("/api/change", asked);
		const now = this.page;
		if (profile === now.profile && tag === now.tag && seconds === now.seconds) this.#show(items[0]);
	}

	#show({ changes, n_before: before, n_after: after }) {
		const time = duration(this.page.seconds);
		const seen = changes.filter((each) => each.visible);
		setText(byId("change-note"), `the last ${time} against the ${time} before`);
		reconcile(
			byId("change-list"),
			before && after ? largest(seen) : [],
			({ name }) => name,
			() => h("li", {}),
			(row, each) => setText(row, this.#sentence(each)),
		);
		setText(byId("change-legend"), legend(time, before, after, changes.length, seen.length));
	}

	// Shares change by percentage points.
	#sentence(change) {
		const figure = this.estimates.item?.estimates.find(({ name }) => name === change.name);
		const share = figure ? isShare(figure) : false;
		const { number, unit } = scaleOf(change, share);
		const [value, low, high] = [change.value, change.low, change.high].map((each) => number(Math.abs(each)));
		const rose = change.value > 0;
		const ends = rose ? `${low} … ${high}` : `${high} … ${low}`;
		const label = figure ? this.estimates.label(figure) : change.name;
		return `${rose ? "▲" : "▼"} ${label} ${rose ? "rose" : "fell"} by ${withUnit(value, share ? "points" : unit)} (${ends})`;
	}
}

// By their part of the range.
function largest(changes) {
	const size = ({ value, range }) => Math.abs(value) / (range[1] - range[0]);
	return [...changes].sort((one, other) => size(other) - size(one)).slice(0, MOST);
}

function legend(time, before, after, compared, seen) {
	if (!before || !after) return `Nothing to compare: no report counts in the ${before ? "last" : `${time} before the last`} ${time}.`;
	const hidden = seen > MOST ? `The largest ${MOST} of ${seen} changes. ` : "";
	const rest = seen ? "In the others" : `In ${plural(compared, "estimate")}`;
	const said = seen < compared ? `${rest} no change is visible: their 95% intervals include zero. ` : "";
	return `${hidden}${said}${seen ? "Of 20 estimates that did not change, chance shows about one." : ""}`.trim();
}
