// SPDX-License-Identifier: MIT
// The choice of profile, group and time.

import { byId, h, setHidden } from "./dom.js";

const WINDOWS = [
	[300, "5 min"],
	[3600, "1 h"],
	[86400, "24 h"],
	[604800, "7 d"],
	[null, "all"],
];

export class Controls {
	constructor(page, changed) {
		this.page = page;
		this.select = byId("profile");
		this.select.addEventListener("change", () => {
			page.profile = page.profiles.find((profile) => profile.name === this.select.value);
			changed();
		});
		this.groups = byId("group");
		this.groups.addEventListener("change", () => {
			page.group = this.groups.value || null;
			changed();
		});
		byId("window").append(...WINDOWS.map(([seconds, name]) => this.#choice(seconds, name, changed)));
	}

	#choice(seconds, name, changed) {
		const input = h("input", {
			type: "radio",
			name: "window",
			value: name,
			checked: seconds === this.page.seconds,
			onchange: () => {
				this.page.seconds = seconds;
				changed();
			},
		});
		return h("label", {}, input, h("span", {}, name));
	}

	// The profile that most devices have comes first, unless one has been chosen.
	show() {
		const { page } = this;
		const known = page.profiles.find((profile) => profile.name === page.profile?.name);
		const largest = page.profiles.reduce((best, each) => (each.devices > (best?.devices ?? -1) ? each : best), null);
		page.profile = known ?? largest;
		this.select.replaceChildren(
			...page.profiles.map((profile) => h("option", { selected: profile === page.profile }, profile.name)),
		);
		if (!page.groups.some(({ group }) => group === page.group)) page.group = null;
		this.groups.replaceChildren(
			h("option", { value: "" }, "all devices"),
			...page.groups.map(({ group, members }) =>
				h("option", { value: group, selected: group === page.group }, `${group} (${members})`),
			),
		);
		setHidden(this.groups.parentElement, page.groups.length === 0);
	}
}
