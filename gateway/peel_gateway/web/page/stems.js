// SPDX-License-Identifier: MIT
// A stem chart: a vector entry by entry, with the admissible pattern behind it.

import { svg } from "./dom.js";

const WIDTH = 560;
const HEIGHT = 96;
const SIDE = 6;

// vector, pattern: numbers; k: how many of them are attributes; most: what the height stands for
export function stems({ vector, pattern, k, most, label, marked, honest = false }) {
	const step = (WIDTH - 2 * SIDE) / vector.length;
	const x = (place) => SIDE + (place + 0.5) * step;
	const middle = HEIGHT / 2;
	const y = (value) => middle - (Math.max(-most, Math.min(most, value)) / most) * (middle - 6);
	const wide = Math.min(9, Math.max(1, step * 0.72));
	const chart = svg("svg", {
		class: honest ? "stems honest" : "stems",
		viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
		role: "img",
		"aria-label": label,
	});
	chart.append(svg("rect", { class: "field", x: x(0) - step / 2, y: 2, width: step * k, height: HEIGHT - 4, rx: 3 }));
	if (marked !== null)
		chart.append(svg("rect", { class: "assigned", x: x(marked) - step / 2, y: 2, width: step, height: HEIGHT - 4 }));
	pattern.forEach((value, place) => {
		chart.append(
			svg("line", { class: "pattern", x1: x(place), x2: x(place), y1: middle, y2: y(value), "stroke-width": wide }),
		);
	});
	chart.append(svg("line", { class: "axis", x1: SIDE, x2: WIDTH - SIDE, y1: middle, y2: middle }));
	vector.forEach((value, place) => {
		if (Math.abs(value - pattern[place]) < 1e-3 && Math.abs(value) < 0.5) return; // equal to the pattern, which is drawn already
		chart.append(
			svg("line", {
				class: "stem",
				x1: x(place),
				x2: x(place),
				y1: middle,
				y2: y(value),
				"stroke-width": Math.max(1, wide / 2.2),
			}),
		);
	});
	return chart;
}
