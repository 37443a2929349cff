// SPDX-License-Identifier: MIT
// The alerts on estimates: state, condition, value with its interval, and since when.

import { ask } from "./api.js";
import { byId, h, reconcile, setHidden, setText } from "./dom.js";
import { count, decimalsFor, exact, fixed, plural, withUnit } from "./format.js";

const FEW = 6;
const MARKS = { active: "▲ active", inactive: "inactive", unknown: "? not evaluated" };

export class Alerts {
	constructor() {
		this.items = [];
		this.all = false;
		byId("alerts-more").addEventListener("click", () => {
			this.all = !this.all;
			this.#show();
		});
	}

	async refresh() {
		this.items = (await ask("/api/alerts")).items;
		this.#show();
	}

	#show() {
		const { items } = this;
		const active = items.filter(({ state }) => state === "active").length;
		const listed = this.all ? items : items.slice(0, Math.max(FEW, active));
		setHidden(byId("alerts"), !items.length);
		setText(byId("alerts-note"), `${count(active)} of ${plural(items.length, "alert")} active`);
		reconcile(
			byId("alerts-list"),
			listed,
			({ alert }) => alert,
			() => this.#make(),
			(row, item) => this.#update(row, item),
		);
		setHidden(byId("alerts-more"), !this.all && listed.length === items.length);
		setText(byId("alerts-more"), this.all ? "Show fewer" : `Show all ${count(items.length)}`);
	}

	#make() {
		const row = h("li", { class: "case" });
		const [name, state, since] = [h("strong", {}), h("span", { class: "verdict" }), h("time", {})];
		row.parts = { name, state, since, sentence: h("p", { class: "sentence" }) };
		row.append(h("p", { class: "who" }, state, name, since), row.parts.sentence);
		return row;
	}

	#update({ parts }, item) {
		parts.state.classList.toggle("mild", item.state !== "active");
		setText(parts.state, MARKS[item.state]);
		setText(parts.name, item.alert);
		if (item.since) parts.since.setAttribute("datetime", item.since);
		setText(parts.since, item.since ? `since ${exact(item.since)}` : "");
		setText(parts.sentence, sentence(item));
	}
}

function sentence(item) {
	const { figure, profile, tag, condition, threshold, window, value, low, high, unit, problem } = item;
	const verb = condition === "changed" ? "changes by more than" : condition;
	const decimals = value === null ? 0 : decimalsFor(high - low);
	const text = (number) => fixed(number, decimals);
	const limit = withUnit(String(threshold).replace("-", "\u2212"), unit);
	const missing = condition === "changed" ? "one of the two windows has no report" : "the window has no report";
	const found =
		value === null
			? (problem ?? missing)
			: `${withUnit(text(value), unit)} (${text(low)} … ${text(high)}), n\u00a0${count(item.n)}`;
	return `${figure} of ${tag || profile} ${verb} ${limit} in ${window}: ${found}`;
}
