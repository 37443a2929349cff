// SPDX-License-Identifier: MIT
// The exposed devices, newest first, each with its reason.

import { ask } from "./api.js";
import { byId, h, reconcile, setHidden, setText } from "./dom.js";
import { ago, count, exact, plural } from "./format.js";

const FEW = 6;
const MOST = 200;

export class Exposed {
	constructor(page, why, history) {
		this.page = page;
		this.why = why;
		this.history = history;
		this.limit = FEW;
		this.seen = null; // devices that have been shown: what comes later is new
		byId("exposed-more").addEventListener("click", () => {
			this.limit = this.limit === FEW ? MOST : FEW;
			this.#show();
		});
		setInterval(() => this.#show(), 10000); // "12 s ago" goes on by itself
	}

	async refresh() {
		const { profile } = this.page;
		if (!profile) return;
		const { items, total } = await ask("/api/exposed", { profile: profile.name, tag: this.page.tag, limit: MOST });
		if (profile !== this.page.profile) return;
		this.items = items;
		this.total = total;
		this.history.exposed = items;
		this.history.show();
		this.#show();
		await this.why.suggest(items);
	}

	#show() {
		if (!this.items) return;
		const known = this.seen;
		const listed = this.items.slice(0, this.limit);
		reconcile(
			byId("exposed-list"),
			listed,
			(item) => `${item.device} ${item.exposed_at}`,
			(item) => this.#make(item, known !== null && !known.has(item.device)),
			(row, item) => this.#update(row, item),
		);
		this.seen = new Set(this.items.map((item) => item.device));
		setText(byId("exposed-note"), this.total ? `${count(this.total)} of this profile` : "");
		setHidden(byId("exposed-more"), this.items.length <= FEW);
		const many = this.total > this.items.length ? `${count(this.items.length)} of ${count(this.total)}` : `all ${count(this.total)}`;
		setText(byId("exposed-more"), this.limit === FEW ? `Show ${many}` : `Show the newest ${FEW}`);
		if (!this.items.length) byId("exposed-list").replaceChildren(h("li", { class: "none" }, this.#none()));
	}

	// The sentence at the top also counts exposed devices of other profiles and tags.
	#none() {
		const where = this.page.tag === null ? "of this profile" : "of this profile and tag";
		const others = this.page.summary.totals.exposed_devices;
		return `No device ${where} is exposed${others ? `; ${plural(others, "other device")} ${others === 1 ? "is" : "are"}` : ""}.`;
	}

	#make(item, isNew) {
		const row = h("li", { class: isNew ? "case new" : "case" });
		row.parts = {
			when: h("time", { datetime: item.exposed_at, title: exact(item.exposed_at) }),
			role: h("span", { class: "role" }),
		};
		row.append(
			h(
				"p",
				{ class: "who" },
				h("code", {}, item.device),
				h("span", { class: "verdict" }, item.verdict),
				row.parts.when,
				row.parts.role,
			),
			h("p", { class: "sentence" }, item.sentence),
			item.exposure === null
				? h("p", { class: "meta" }, "The quarantine has deleted the report itself.")
				: h(
						"button",
						{
							class: "link",
							"aria-label": `The evidence against ${item.device}`,
							onclick: () => this.why.show(item.exposure, true),
						},
						"the evidence",
					),
		);
		return row;
	}

	#update(row, item) {
		setText(row.parts.when, ago(item.exposed_at));
		setText(row.parts.role, this.page.demo?.roleOf(item.device) ?? "");
	}
}
