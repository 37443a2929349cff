// SPDX-License-Identifier: MIT
// The layers as a funnel: messages received, refused by each layer, and counted.

import { byId, h, reconcile, setText } from "./dom.js";
import { count } from "./format.js";

export class Layers {
	constructor(page) {
		this.page = page;
		this.table = [];
		this.list = byId("layers-list");
	}

	show() {
		const { totals } = this.page.summary;
		const steps = this.table.map((layer) => this.#step(layer, totals.verdicts));
		const withdrawal = steps.at(-1);
		if (!withdrawal) return;
		withdrawal.blamed += totals.withdrawn_past; // these counted until their device was exposed
		let left = totals.accepted + totals.exposed;
		const total = left;
		for (const step of steps) {
			left -= step.blamed + step.unblamed;
			step.left = left;
			step.total = total;
		}
		const rows = [
			{
				layer: "arrived",
				end: true,
				left: total,
				total,
				note: totals.verdicts.redelivered
					? `and ${count(totals.verdicts.redelivered)} repeated deliveries, not counted again`
					: "distinct messages",
			},
			...steps,
			{
				layer: "count",
				end: true,
				left,
				total,
				note: totals.verdicts.held
					? `in the estimates; ${count(totals.verdicts.held)} more wait for their coins`
					: "in the estimates",
			},
		];
		reconcile(
			this.list,
			rows,
			(row) => row.layer,
			(row) => (row.end ? makeEnd() : makeStep(row)),
			update,
		);
	}

	#step(layer, verdicts) {
		const step = { layer: layer.layer, exposes: layer.exposes, blamed: 0, unblamed: 0, verdicts: [] };
		for (const { verdict, blame, sentence } of layer.verdicts) {
			const n = verdicts[verdict] ?? 0;
			const blamed = blame !== "network";
			step[blamed ? "blamed" : "unblamed"] += n;
			step.verdicts.push({ verdict, sentence, blamed, n });
		}
		return step;
	}
}

function makeEnd() {
	const parts = { name: h("strong", {}), n: h("span", { class: "left" }), note: h("span", { class: "note" }) };
	return Object.assign(h("li", { class: "endpoint" }, parts.name, parts.n, parts.note), { parts });
}

function makeStep(step) {
	const parts = {
		minus: h("span", { class: "minus" }),
		blamed: h("span", { class: "blamed" }),
		unblamed: h("span", { class: "unblamed" }),
		left: h("span", { class: "left" }),
		verdicts: h("dl", {}),
	};
	const summary = h(
		"summary",
		{},
		h("strong", {}, step.layer),
		parts.left,
		parts.minus,
		h("span", { class: "slices", "aria-hidden": "true" }, parts.blamed, parts.unblamed),
		h("span", { class: "note" }, step.exposes),
	);
	return Object.assign(h("li", {}, h("details", {}, summary, parts.verdicts)), { parts });
}

function update(row, step) {
	const { parts } = row;
	if (step.end) {
		setText(parts.name, step.layer);
		setText(parts.n, count(step.left));
		setText(parts.note, step.note);
		return;
	}
	const refused = step.blamed + step.unblamed;
	setText(parts.minus, refused ? `\u2212${count(refused)}` : "0");
	setText(parts.left, count(step.left));
	// The square root of the share keeps a hundredth visible.
	const width = (n) => `${(100 * Math.sqrt(n / Math.max(1, step.total))).toFixed(2)}%`;
	const both = width(refused);
	parts.blamed.style.width = refused ? `calc(${both} * ${step.blamed / refused})` : "0";
	parts.unblamed.style.width = refused ? `calc(${both} * ${step.unblamed / refused})` : "0";
	const lines = step.verdicts.map(({ verdict, sentence, blamed, n }) => [verdict, count(n), sentence, blamed]);
	if (parts.verdicts.dataset.shown === JSON.stringify(lines)) return;
	parts.verdicts.dataset.shown = JSON.stringify(lines);
	parts.verdicts.replaceChildren(
		...lines.map(([verdict, n, sentence, blamed]) =>
			h(
				"div",
				{},
				h("dt", {}, h("span", { class: blamed ? "verdict" : "verdict mild" }, verdict), h("span", { class: "num" }, n)),
				h("dd", {}, sentence, h("small", {}, blamed ? " The device is to blame." : " No device is blamed.")),
			),
		),
	);
}
