// SPDX-License-Identifier: MIT
// A band chart: a line within its interval, over time, with marks on the time axis.

import { svg } from "./dom.js";

const WIDTH = 560;
const HEIGHT = 330;
const LEFT = 64;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 44;

const path = (points) => points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

// Round steps, about so many.
export function ticks(low, high, wanted) {
	const rough = (high - low) / wanted;
	const power = 10 ** Math.floor(Math.log10(rough));
	const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
	const first = Math.ceil(low / step) * step;
	return Array.from({ length: Math.floor((high - first) / step + 1e-9) + 1 }, (_, place) => first + place * step);
}

// points: [{at, value, low, high}] in order of time; marks: [{at, label}]; truth: [{at, value}]
export function bandChart({ points, marks, begin, end, low, high, number, time, label, truth }) {
	const x = (at) => LEFT + ((at - begin) / (end - begin)) * (WIDTH - LEFT - RIGHT);
	const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
	const chart = svg("svg", { class: "bandchart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
	for (const tick of ticks(low, high, 4)) {
		chart.append(
			svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }),
			svg("text", { class: "tick", x: LEFT - 6, y: y(tick) + 5, "text-anchor": "end" }, number(tick)),
		);
	}
	for (const share of [0, 0.5, 1]) {
		const at = begin + share * (end - begin);
		chart.append(
			svg(
				"text",
				{ class: "tick", x: x(at), y: HEIGHT - 4, "text-anchor": ["start", "middle", "end"][share * 2] },
				time(at),
			),
		);
	}
	if (points.length > 1) {
		const upper = points.map((point) => [x(point.at), y(point.high)]);
		const lower = points.map((point) => [x(point.at), y(point.low)]).reverse();
		chart.append(
			svg("path", { class: "band", d: `${path([...upper, ...lower])}Z` }),
			svg("path", { class: "line", d: path(points.map((point) => [x(point.at), y(point.value)])) }),
		);
	}
	if (points.length === 1) {
		const [{ at, low: least, high: most }] = points;
		chart.append(svg("rect", { class: "band", x: x(at) - 7, y: y(most), width: 14, height: y(least) - y(most), rx: 2 }));
	}
	if (truth.length) {
		const line = truth.map((point) => [x(point.at), y(point.value)]);
		const [[left, height]] = line;
		const dash = [[left - 14, height], [left + 14, height]]; // one moment is no line yet
		chart.append(svg("path", { class: "truthline", d: path(line.length > 1 ? line : dash) }));
	}
	for (const point of points.length > 30 ? points.slice(-1) : points) {
		chart.append(svg("circle", { class: "point", cx: x(point.at), cy: y(point.value), r: 2.5 }));
	}
	for (const mark of marks) {
		chart.append(
			svg(
				"path",
				{ class: "exposure", d: `M${x(mark.at)},${HEIGHT - BOTTOM + 4} l5,9 h-10 Z` },
				svg("title", {}, mark.label),
			),
		);
	}
	return chart;
}
