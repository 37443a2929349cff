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

// Runs of points that follow each other: where a stretch of time has no report, a new one begins.
function unbroken(points, step) {
	const runs = [];
	for (const [place, point] of points.entries()) {
		if (place === 0 || point.at - points[place - 1].at > 1.5 * step) runs.push([]);
		runs.at(-1).push(point);
	}
	return runs;
}

// points: [{at, value, low, high}] in order of time, `step` apart where none is missing; marks: [{at, label}]; truth: [{at, value}]
export function bandChart({ points, step, marks, begin, end, low, high, number, time, label, truth }) {
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
	const runs = unbroken(points, step);
	for (const run of runs) {
		if (run.length === 1) {
			const [{ at, low: least, high: most }] = run;
			const half = Math.max(1.5, Math.min(7, (x(at + step) - x(at)) / 2));
			chart.append(
				svg("rect", { class: "band", x: x(at) - half, y: y(most), width: 2 * half, height: y(least) - y(most), rx: 1 }),
			);
			continue;
		}
		const upper = run.map((point) => [x(point.at), y(point.high)]);
		const lower = run.map((point) => [x(point.at), y(point.low)]).reverse();
		chart.append(
			svg("path", { class: "band", d: `${path([...upper, ...lower])}Z` }),
			svg("path", { class: "line", d: path(run.map((point) => [x(point.at), y(point.value)])) }),
		);
	}
	if (truth.length) {
		const line = truth.map((point) => [x(point.at), y(point.value)]);
		const [[left, height]] = line;
		const dash = [[left - 14, height], [left + 14, height]]; // a single point makes no line
		chart.append(svg("path", { class: "truthline", d: path(line.length > 1 ? line : dash) }));
	}
	const alone = runs.filter((run) => run.length === 1).flat();
	for (const point of points.length > 30 ? [...alone, ...points.slice(-1)] : points) {
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
