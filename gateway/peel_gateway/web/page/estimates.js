// SPDX-License-Identifier: MIT
// The estimates: a row for each mean, median and share; a picture for each distribution.

import { ask } from "./api.js";
import { medianOf, showDistributions } from "./distribution.js";
import { byId, h, reconcile, setHidden, setText } from "./dom.js";
import { ago, count, duration, percent, plural, scaleOf, withUnit } from "./format.js";
import { RangeBar } from "./rangebar.js";

const FEW = 12;
const FEW_HASHED = 4; // beside other attributes
const CATEGORICAL = new Set(["category", "hashed"]);
const ENOUGH = 0.05;

export class Estimates {
	constructor(page, chosen) {
		this.page = page;
		this.chosen = chosen;
		this.item = null;
		this.name = null; // the chosen figure
		this.all = false;
		this.list = byId("estimates-list");
		setInterval(() => this.#note(), 5000); // "3 s ago" goes on by itself
		byId("estimates-filter").addEventListener("input", () => this.#show());
		byId("estimates-more").addEventListener("click", () => {
			this.all = !this.all;
			this.#show();
		});
	}

	get figure() {
		return this.#figures().find((figure) => figure.name === this.name) ?? null;
	}

	// Categories without names are numbers; the attribute says of what.
	label({ name, attribute, kind, threshold }) {
		if (kind === "above" || kind === "ladder") name = `${attribute} above ${this.#amount(attribute, threshold)}`;
		return (/^\d+$/.test(name) ? `${attribute} ${name}` : name).replaceAll("_", " ");
	}

	#amount(attribute, value) {
		const unit = this.page.profile?.attributes.find((each) => each.name === attribute)?.unit;
		return withUnit(String(value).replace("-", "\u2212"), unit);
	}

	// Rungs of ladders are drawn as distributions; their medians are figures.
	#figures() {
		if (!this.item) return [];
		const medians = new Map(this.item.distributions.map((each) => [each.attribute, medianOf(each)]));
		const found = this.item.estimates.map((figure) => (figure.kind === "ladder" ? medians.get(figure.attribute) : figure));
		return [...new Set(found)].filter(Boolean);
	}

	async refresh() {
		const { profile } = this.page;
		if (!profile) return;
		const { items } = await ask("/api/estimates", {
			profile: profile.name,
			tag: this.page.tag,
			since: this.page.since(),
		});
		if (profile !== this.page.profile) return; // another one was chosen meanwhile
		const moved = this.item?.profile !== profile.name;
		this.item = items[0];
		if (moved) {
			this.all = false;
			byId("estimates-filter").value = "";
		}
		const listed = this.#ordered();
		if (!listed.some((figure) => figure.name === this.name)) this.name = listed[0]?.name ?? null;
		this.#show();
	}

	#ordered() {
		// Categories by size, within their attribute.
		const figures = this.#figures();
		const places = new Map(figures.map((figure, place) => [figure.attribute + figure.kind, place]));
		const size = (figure) => (CATEGORICAL.has(figure.kind) ? (figure.value ?? 0) : 0);
		return figures.sort(
			(one, other) =>
				places.get(one.attribute + one.kind) - places.get(other.attribute + other.kind) || size(other) - size(one),
		);
	}

	#show() {
		const { item } = this;
		if (!item) return;
		const wanted = byId("estimates-filter").value.trim().toLowerCase();
		const found = this.#ordered().filter((figure) => figure.name.toLowerCase().includes(wanted));
		const listed = this.all ? found : this.#first(found);
		this.list.classList.toggle("many", listed.length > FEW);
		showDistributions(this.page, item);
		reconcile(
			this.list,
			listed,
			(figure) => figure.name,
			() => this.#make(),
			(row, figure) => this.#update(row, figure),
		);
		setHidden(byId("estimates-find"), this.#ordered().length <= FEW);
		setHidden(byId("estimates-more"), !this.all && listed.length === found.length);
		setText(byId("estimates-more"), this.all ? "Show fewer" : `Show all ${count(found.length)}`);
		this.#note();
		setText(
			byId("estimates-legend"),
			[
				item.figures > item.estimates.length
					? `Each interval holds for its category alone. The largest of ${count(item.figures)} tend to be too high, because they were selected.`
					: "",
				listed.length < found.length ? "Of long lists only categories that stand out from chance come first." : "",
				"Each bar is the whole range; the band is the 95% interval, the upright mark the estimate.",
				this.page.profile?.verified
					? `A report counts once its coin is opened: one time bucket (${duration(this.page.profile.bucket)}) and a round trip after it arrived.`
					: "",
				item.withdrawn ? "◇ is the estimate with the reports of exposed devices, which do not count." : "",
				this.page.demo
					? "◆ is the true value of honest devices, known only in a demonstration. Sensors that lie are not detected and pull the estimate away from it."
					: "",
			].join(" "),
		);
	}

	// Many categories do not hide the attributes behind them: of each list only the largest come first, if they stand out from chance.
	#first(figures) {
		const attributes = new Set(figures.map((figure) => figure.attribute));
		const seen = new Map();
		const place = ({ attribute }) => seen.set(attribute, (seen.get(attribute) ?? 0) + 1).get(attribute);
		const kept = figures.filter((figure) => attributes.size === 1 || figure.kind !== "hashed" || (this.#standsOut(figure) && place(figure) <= FEW_HASHED));
		return kept.slice(0, FEW);
	}

	// Further from zero than the largest of all categories is likely to be by chance: a tail bound for each, added up to 5%.
	#standsOut({ attribute, value, half_width: half }) {
		const { domain } = this.page.profile.attributes.find((each) => each.name === attribute && each.kind === "hashed");
		return value > (half / 1.96) * Math.sqrt(2 * Math.log(domain / 0.05));
	}

	#note() {
		if (this.item) setText(byId("estimates-note"), `${this.#what()} · updated ${ago(this.item.computed)}`);
	}

	#what() {
		const { item } = this;
		const hidden =
			item.figures > item.estimates.length
				? `the largest ${count(item.estimates.length)} of ${plural(item.figures, "estimate")} · `
				: "";
		if (item.note) return item.note;
		if (!item.n) return "no reports of this profile in this time";
		return `${hidden}${plural(item.n, "report")} of ${plural(item.devices ?? 0, "device")}`;
	}

	#make() {
		const row = h("li", { class: "estimate" });
		const parts = {
			name: h("button", { class: "name", onclick: () => this.#choose(row.dataset.key) }),
			value: h("span", { class: "value" }),
			unit: h("span", { class: "unit" }),
			interval: h("span", { class: "interval" }),
			low: h("span", { class: "end" }),
			high: h("span", { class: "end" }),
			bar: new RangeBar(),
			n: h("span", { class: "n" }),
			influence: h("span", {}),
			few: h("span", { class: "few" }),
		};
		row.parts = parts;
		row.append(
			h(
				"div",
				{ class: "figures" },
				parts.name,
				h("span", { class: "number" }, parts.value, parts.unit),
				parts.interval,
			),
			h("div", { class: "range" }, parts.low, parts.bar.element, parts.high),
			h("p", { class: "meta" }, parts.n, parts.influence, parts.few),
		);
		return row;
	}

	#choose(name) {
		this.name = name;
		this.#show();
		this.chosen();
	}

	#update(row, figure) {
		const { parts } = row;
		const scale = scaleOf(figure);
		const truth = this.page.demo?.truth(this.item.profile, figure.name) ?? null;
		setText(parts.name, this.label(figure));
		parts.name.setAttribute("aria-pressed", figure.name === this.name);
		const unknown = figure.value === null || figure.too_few;
		parts.value.classList.toggle("few", unknown);
		setText(parts.value, unknown ? (figure.n ? "too few reports" : "–") : scale.number(figure.value));
		setText(parts.unit, unknown ? "" : scale.unit);
		setText(parts.interval, unknown ? "" : `${scale.number(figure.low)} … ${scale.number(figure.high)}`);
		setText(parts.low, scale.end(figure.range[0]));
		setText(parts.high, scale.end(figure.range[1]));
		setText(parts.n, `n ${count(figure.n)}`);
		setText(
			parts.influence,
			figure.influence === null || unknown
				? ""
				: `one device can move it by ${scale.withUnit(figure.influence)}`,
		);
		setText(parts.few, this.#missing(figure));
		this.#showBar(parts.bar, figure, scale, truth);
	}

	#showBar(bar, figure, scale, truth) {
		const [least, most] = figure.range;
		const share = (value) => (value === null ? null : (value - least) / (most - least));
		const before = figure.withdrawn && !figure.too_few ? figure.before_withdrawal.value : null;
		const words =
			figure.value === null
				? "no estimate"
				: figure.too_few
					? `too few reports for a value, 95% interval ${scale.number(figure.low)} to ${scale.number(figure.high)}`
					: `${scale.withUnit(figure.value)}, 95% interval ${scale.number(figure.low)} to ${scale.number(figure.high)}`;
		bar.show({
			low: share(figure.low),
			high: share(figure.high),
			value: figure.too_few ? null : share(figure.value),
			before: share(before),
			truth: share(truth),
			label:
				`${this.label(figure)}: ${words}, range ${scale.end(least)} to ${scale.end(most)}` +
				(before === null ? "" : `, ${scale.withUnit(before)} with exposed devices`) +
				(truth === null ? "" : `, truth ${scale.withUnit(truth)}`),
		});
	}

	// The waiting time follows from the planned rate of active devices, not from the reports so far.
	#missing(figure) {
		if (figure.half_width === null) return "no report yet";
		if (figure.half_width <= ENOUGH || figure.kind === "median") return ""; // a median is never known better than the rungs are apart
		const now = figure.too_few ? "" : `too few: ±${percent(figure.half_width)} of the range now`;
		if (figure.seconds_missing === null) return [now, "no device is reporting"].filter(Boolean).join(", ");
		const wait = this.#wait(`±${percent(ENOUGH)}`, figure, figure.seconds_missing);
		const first = figure.too_few ? this.#wait("a value", figure, figure.seconds_to_value) : "";
		return [now, first, wait].filter(Boolean).join(", ");
	}

	// A window that is too short for a goal does not reach it: old reports leave it as new ones come in.
	#wait(goal, figure, seconds) {
		const window = this.page.seconds;
		const perReport = figure.seconds_missing / figure.reports_missing;
		const needed = figure.n * perReport + seconds;
		return window !== null && needed > window
			? `${goal} takes ${duration(needed)} of reports`
			: `${goal} in about ${duration(seconds)}`;
	}
}
