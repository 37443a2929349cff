// SPDX-License-Identifier: MIT
// The choice of profile, tag and time.

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
		this.tags = byId("tag");
		this.tags.addEventListener("change", () => {
			page.tag = this.tags.value || null;
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
		if (!page.tags.some(({ tag }) => tag === page.tag)) page.tag = null;
		this.tags.replaceChildren(
			h("option", { value: "" }, "all devices"),
			...page.tags.map(({ tag, members }) =>
				h("option", { value: tag, selected: tag === page.tag }, `${tag} (${members})`),
			),
		);
		setHidden(this.tags.parentElement, page.tags.length === 0);
	}
}
