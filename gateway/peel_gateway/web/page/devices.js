// SPDX-License-Identifier: MIT
// The devices: state, counted reports, privacy budget.

import { ask } from "./api.js";
import { deviceDetail } from "./device.js";
import { byId, h, reconcile, setHidden, setText } from "./dom.js";
import { ago, count, exact, short } from "./format.js";

const PAGE = 50;
const MOST = 1000;
const TYPING_MS = 300;
const COLUMNS = [
	["Device"],
	["State"],
	["Last heard"],
	["Count", "num"],
	["Refused", "num"],
	["Missing", "num"],
	["ε spent", "num"],
	["ε left", "num"],
	["Note", "note"],
	["Held", "num"],
];
const HELD = 9; // only of profiles with verified coins
const wantedText = () => byId("devices-find").value.trim().toLowerCase();
const STATES = ["", "active", "new", "silent", "sensor failing", "exposed", "stopped", "exhausted", "revoked"];

export class Devices {
	constructor(page, why) {
		this.page = page;
		this.why = why;
		this.limit = PAGE;
		byId("devices-table").tHead.replaceChildren(
			h(
				"tr",
				{},
				COLUMNS.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)),
			),
		);
		byId("devices-state").append(...STATES.map((state) => h("option", { value: state }, state || "any")));
		byId("devices-state").addEventListener("change", () => this.#again());
		byId("devices-find").addEventListener("input", () => {
			this.#show(); // filter the loaded rows at once
			clearTimeout(this.typing);
			this.typing = setTimeout(() => this.#again(), TYPING_MS);
		});
		byId("devices-more").addEventListener("click", () => {
			this.limit = Math.min(MOST, this.limit * 4);
			this.refresh();
		});
	}

	async #again() {
		this.limit = PAGE;
		await this.refresh();
	}

	async refresh() {
		const { profile, tag } = this.page;
		if (!profile) return;
		const state = byId("devices-state").value;
		const wanted = wantedText();
		const answer = await ask("/api/devices", {
			profile: profile.name,
			tag,
			state,
			find: this.page.demo ? null : wanted, // roles are filtered here, because the gateway does not know them
			limit: this.page.demo && wanted ? MOST : this.limit,
		});
		if (profile !== this.page.profile || tag !== this.page.tag) return;
		if (state !== byId("devices-state").value || wanted !== wantedText()) return;
		this.items = answer.items;
		this.more = answer.next !== null;
		this.#show();
	}

	#show() {
		if (!this.items) return;
		const wanted = wantedText();
		setHidden(byId("devices-table").tHead.rows[0].cells[HELD], !this.page.profile.verified);
		const found = this.items.filter(
			(item) =>
				item.device.includes(wanted) ||
				item.note.toLowerCase().includes(wanted) ||
				this.page.demo?.roleOf(item.device)?.includes(wanted),
		);
		const body = byId("devices-table").tBodies[0];
		const rows = found.flatMap((item) => (item.device === this.opened?.of ? [item, this.opened] : [item]));
		reconcile(
			body,
			rows,
			(row) => (row.of ? `detail of ${row.of}` : row.device),
			(row) => row.element ?? this.#make(),
			(row, item) => item.of || this.#update(row, item),
		);
		if (!found.length)
			body.replaceChildren(h("tr", {}, h("td", { colspan: COLUMNS.length, class: "none" }, "No such device.")));
		setText(
			byId("devices-note"),
			`${this.more ? "the first " : ""}${count(found.length)}${wanted || byId("devices-state").value || this.page.tag ? " that fit" : ""} of ${count(this.page.profile.devices)}`,
		);
		setHidden(byId("devices-more"), !this.more || this.limit >= MOST);
	}

	#make() {
		const name = h("button", { class: "link", onclick: () => this.#open(row.dataset.key) });
		const row = h(
			"tr",
			{},
			h("th", { scope: "row" }, h("code", {}, name)),
			COLUMNS.slice(1).map(([, kind]) => h("td", { class: kind })),
		);
		row.cells[1].append(h("span", { class: "state" }), h("span", { class: "role" }));
		row.cells[2].append(h("time"));
		return row;
	}

	// Opens the detail of one device in a row below its own, and fills it when the data arrives.
	async #open(device) {
		const again = this.opened?.of === device;
		const cell = h("td", { colspan: COLUMNS.length }, h("p", { class: "none" }, "Loading …"));
		this.opened = again ? null : { of: device, element: h("tr", { class: "opened" }, cell) };
		this.#show();
		if (again) return;
		try {
			cell.replaceChildren(await deviceDetail(device, this.why));
		} catch (error) {
			cell.replaceChildren(h("p", { class: "none" }, error.message));
			throw error;
		}
	}

	#update(row, item) {
		const { profile } = this.page;
		const cells = [...row.cells];
		const logged = Object.values(item.reports).reduce((sum, n) => sum + n, 0);
		const state = item.exposed ? "exposed" : item.state;
		const heard = item.last_heard ?? item.last_received;
		const name = cells[0].firstChild.firstChild;
		setText(name, item.device);
		name.setAttribute("aria-expanded", item.device === this.opened?.of);
		cells[1].firstChild.className = `state ${state.replace(" ", "-")}`;
		const failing = state === "sensor failing" ? item.claims.failing : null;
		const shown = item.exposed ? `exposed: ${item.exposed}` : failing ? `${state}: ${failing}` : state;
		setText(cells[1].firstChild, item.stalled ? `${shown}, stalled` : shown);
		setText(cells[1].lastChild, this.page.demo?.roleOf(item.device) ?? "");
		const time = cells[2].firstChild;
		setText(time, heard ? ago(heard) : "never");
		if (heard) {
			time.dateTime = heard;
			time.title = exact(heard);
		}
		setText(cells[3], count(item.counted));
		const revealed = item.reports.revealed ?? 0; // numbers whose coins an audit has revealed: there is no report to refuse
		setText(cells[4], count(logged - item.counted - revealed));
		setText(cells[5], item.last_number === null ? "" : count(Math.max(0, item.last_number - logged)));
		setText(cells[6], item.last_number === null ? "" : short((item.last_number - revealed) * profile.epsilon));
		setText(cells[7], item.left === null || item.left === undefined ? "no limit" : short(item.left * profile.epsilon));
		setText(cells[8], item.note);
		cells[8].title = item.note;
		setText(cells[HELD], item.held === null ? "" : count(item.held));
		setHidden(cells[HELD], !profile.verified);
	}
}
