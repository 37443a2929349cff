// SPDX-License-Identifier: MIT
// A range bar: the whole range is the axis, the interval a band, the value a mark.

import { svg } from "./dom.js";

const HEIGHT = 22;
const MIDDLE = HEIGHT / 2;

const at = (share) => `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%`;

export class RangeBar {
	constructor() {
		this.band = svg("rect", { class: "band", y: MIDDLE - 6, height: 12, rx: 2 });
		this.before = this.#mark("before", "M0,-6 L6,0 L0,6 L-6,0 Z");
		this.value = this.#mark("value", "M0,-9 V9");
		this.truth = this.#mark("truth", "M0,-5 L5,0 L0,5 L-5,0 Z");
		this.element = svg(
			"svg",
			{ class: "rangebar", height: HEIGHT, width: "100%", role: "img" },
			svg("line", { class: "axis", x1: 0, x2: "100%", y1: MIDDLE, y2: MIDDLE }),
			svg("line", { class: "axis", x1: 0.5, x2: 0.5, y1: MIDDLE - 4, y2: MIDDLE + 4 }),
			svg("line", { class: "axis", x1: "100%", x2: "100%", y1: MIDDLE - 4, y2: MIDDLE + 4 }),
			this.band,
			this.before,
			this.value,
			this.truth,
		);
	}

	#mark(name, path) {
		return svg("svg", { class: name, y: MIDDLE, overflow: "visible", "aria-hidden": "true" }, svg("path", { d: path }));
	}

	// shares of the range; null leaves something out
	show({ low, high, value, before, truth, label }) {
		this.element.setAttribute("aria-label", label);
		if (low === null) this.band.setAttribute("visibility", "hidden");
		else {
			this.band.setAttribute("visibility", "visible");
			this.band.setAttribute("x", at(low));
			this.band.setAttribute("width", at(high - low));
		}
		this.#place(this.value, value);
		this.#place(this.before, before);
		this.#place(this.truth, truth);
	}

	#place(mark, share) {
		mark.setAttribute("visibility", share === null || share === undefined ? "hidden" : "visible");
		if (share !== null && share !== undefined) mark.setAttribute("x", at(share));
	}
}
