// SPDX-License-Identifier: MIT
// The chosen figure over time.

import { ask } from "./api.js";
import { bandChart } from "./band.js";
import { isDemo } from "./demo.js";
import { medianOf } from "./distribution.js";
import { byId, h, setHidden, setText } from "./dom.js";
import { clock, count, duration, exact, fixed, scaleOf } from "./format.js";

const POINTS = 48;
// Buckets whose sums the gateway keeps, or that are made of few of them.
const SIZES = [5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21600, 86400, 345600, 1382400, 5529600, 22118400];

export class History {
	constructor(page, estimates) {
		this.page = page;
		this.estimates = estimates;
		this.exposed = []; // filled by the panel of exposed devices
		this.of = {}; // profile, name and tag of the items; the user may have chosen others since
		this.items = [];
		this.truth = []; // only in a demonstration
	}

	async refresh() {
		const { page } = this;
		const { name } = this.estimates;
		if (!name || !page.summary?.store.first_received) return;
		const profile = page.profile.name;
		const now = Date.now() / 1000;
		const first = Date.parse(page.summary.store.first_received) / 1000;
		const begin = page.seconds === null ? first : Math.max(first, now - page.seconds);
		const base = page.summary.store.bucket_seconds;
		const least = Math.max(base, (now - begin) / POINTS);
		const bucket = SIZES.find((size) => size >= least && size % base === 0) ?? base * Math.ceil(least / base);
		const since = Math.floor(begin / bucket) * bucket;
		const { tag } = page;
		const devices = tag === null ? "no" : "yes"; // estimates of a tag need sums per device
		const asked = { profile, name, bucket, since };
		const items = await this.#ask({ ...asked, tag, devices });
		const truth = page.demo && this.estimates.figure?.kind !== "median" ? await page.demo.history(asked) : [];
		if (name !== this.estimates.name || profile !== page.profile.name || tag !== page.tag) return;
		this.of = { profile, name, tag };
		this.bucket = bucket;
		this.items = items.filter((item) => item.estimates[0].value !== null);
		this.truth = truth;
		this.begin = since;
		this.end = Math.max(now, since + bucket);
		this.show();
	}

	// A median comes from all rungs of its ladder, so the gateway is asked for all figures, but for one of each list of categories.
	async #ask(asked) {
		const { figure } = this.estimates;
		if (figure?.kind !== "median") return (await ask("/api/estimates", asked)).items;
		const { items } = await ask("/api/estimates", { ...asked, name: null, top: 1 });
		const named = (item) => item.distributions.filter(({ attribute }) => attribute === figure.attribute);
		return items.flatMap((item) => named(item).map((found) => ({ ...item, estimates: [medianOf(found)] })));
	}

	show() {
		const { figure } = this.estimates;
		const { profile, name, tag } = this.of;
		if (figure?.name !== name || !name || this.page.profile.name !== profile || this.page.tag !== tag) return;
		const scale = scaleOf(figure);
		const points = this.items.map((item) => this.#point(item));
		setText(
			byId("history-note"),
			`${this.estimates.label(figure)}${scale.unit ? `, ${scale.unit}` : ""}, per ${duration(this.bucket)}`,
		);
		setHidden(byId("history-truth"), !isDemo(this.page));
		byId("history-chart").replaceChildren(
			points.length ? this.#chart(points, figure) : h("p", { class: "none" }, "No report in this time."),
		);
		byId("history-table").tBodies[0].replaceChildren(...[...points].reverse().map((point) => this.#row(point, scale)));
	}

	#point(item) {
		const [figure] = item.estimates;
		return {
			at: this.#middle(item),
			start: item.start,
			value: figure.value,
			low: figure.low,
			high: figure.high,
			n: figure.n,
		};
	}

	#middle({ start }) {
		return Math.min(Date.parse(start) / 1000 + this.bucket / 2, this.end);
	}

	// The axis covers the values, cut to the admissible range; the whole range where no value lies within it.
	#chart(points, figure) {
		const { truth } = this;
		const seen = points.flatMap((point) => [point.low, point.high]).concat(truth.map(({ value }) => value));
		const axis = [Math.max(figure.range[0], Math.min(...seen)), Math.min(figure.range[1], Math.max(...seen))];
		const [low, high] = axis[0] < axis[1] ? axis : figure.range;
		const scale = scaleOf(figure);
		const { factor } = scale;
		const span = (high - low) * factor;
		const decimals = Math.max(0, Math.ceil(-Math.log10(span / 4)));
		const last = points.at(-1);
		return bandChart({
			step: this.bucket,
			points: points.map((point) => ({
				...point,
				value: point.value * factor,
				low: point.low * factor,
				high: point.high * factor,
			})),
			marks: this.exposed
				.map((item) => ({
					at: Date.parse(item.exposed_at) / 1000,
					label: `${item.device}: ${item.verdict}, ${exact(item.exposed_at)}`,
				}))
				.filter((mark) => mark.at >= this.begin && mark.at <= this.end),
			begin: this.begin,
			end: this.end,
			low: low * factor,
			high: high * factor,
			truth: truth.map((item) => ({ at: this.#middle(item), value: item.value * factor })),
			number: (value) => fixed(value, decimals),
			time: (at) => clock(at * 1000, this.end - this.begin),
			label: `${figure.name} over time: last ${scale.withUnit(last.value)}, between ${scale.number(last.low)} and ${scale.number(last.high)}${truth.length ? `, truth ${scale.withUnit(truth.at(-1).value)}` : ""}; the table below has all values`,
		});
	}

	#row(point, scale) {
		return h(
			"tr",
			{},
			h("td", {}, h("time", { datetime: point.start }, exact(point.start))),
			h("td", { class: "num" }, scale.number(point.value)),
			h("td", { class: "num" }, `${scale.number(point.low)} … ${scale.number(point.high)}`),
			h("td", { class: "num" }, count(point.n)),
		);
	}
}
