// SPDX-License-Identifier: MIT
// Only in a demonstration: the true values, the attackers' roles, and switches for attacks.

import { ask, tell } from "./api.js";
import { byId, h, reconcile, setHidden, setText } from "./dom.js";
import { plural } from "./format.js";

const PATH = "/api/demo";

export const isDemo = (page) => page.paths.some(({ path }) => path === PATH);

export class Demo {
	constructor(page, changed) {
		this.page = page;
		this.changed = changed;
		this.table = null;
		this.hinted = null; // the attack that the sentence below the switches is about
	}

	async refresh() {
		if (!isDemo(this.page)) return;
		this.table = await ask(PATH, { since: this.page.since() });
		this.page.demo = this;
		setHidden(byId("demo"), false);
		for (const [id, byDevice] of [
			["demo-devices", true],
			["demo-network", false],
		]) {
			const attacks = this.table.attacks.filter((attack) => attack.by_device === byDevice);
			reconcile(
				byId(id),
				attacks,
				(attack) => attack.name,
				(attack) => this.#make(attack),
				(row, attack) => this.#update(row, attack),
			);
		}
		if (this.hinted) this.#hint(this.hinted);
	}

	truth(profile, name) {
		return this.table.truth[profile]?.[name] ?? null;
	}

	// The truth of one figure over time: [{start, value}].
	async history(asked) {
		return (await ask(`${PATH}/history`, asked)).items;
	}

	roleOf(device) {
		const role = this.table.roles[device];
		return role ? `role: ${role.replaceAll("_", " ")}` : "";
	}

	#make(attack) {
		const toggle = h("button", {
			role: "switch",
			"aria-checked": "false",
			onclick: () => this.#turn(toggle, attack.name),
			onfocus: () => this.#hint(attack.name),
			onpointerenter: () => this.#hint(attack.name),
		});
		toggle.append(h("span", { class: "knob", "aria-hidden": "true" }), attack.name.replaceAll("_", " "));
		const row = h("li", {}, toggle);
		row.toggle = toggle;
		return row;
	}

	#update(row, attack) {
		row.toggle.setAttribute("aria-checked", String(attack.on));
		row.toggle.setAttribute("aria-description", attack.help);
	}

	#hint(name) {
		this.hinted = name;
		const attack = this.table.attacks.find((each) => each.name === name);
		const who = attack.by_device ? ` ${plural(attack.devices, "device")} so far.` : "";
		setText(
			byId("demo-hint"),
			`${attack.help} ${attack.layer ? `Layer: ${attack.layer}.` : "No layer detects it."}${who}`,
		);
	}

	async #turn(toggle, name) {
		const on = toggle.getAttribute("aria-checked") === "true" ? "no" : "yes";
		toggle.setAttribute("aria-busy", "true");
		try {
			await tell(`${PATH}/attacks`, { name, on });
			await this.refresh();
		} finally {
			toggle.removeAttribute("aria-busy");
		}
		this.changed();
	}
}
