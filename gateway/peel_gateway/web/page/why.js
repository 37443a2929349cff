// SPDX-License-Identifier: MIT
// One report as evidence: the picture, the sentence, the bytes.

import { Refused, ask } from "./api.js";
import { byId, h, setText } from "./dom.js";
import { ago, exact, percent } from "./format.js";
import { RangeBar } from "./rangebar.js";
import { stems } from "./stems.js";

const MOST_SPIKES = 4; // of an honest report: more would hide how one looks

export class Why {
	constructor(page) {
		this.page = page;
		this.id = null;
		this.scope = ""; // profile and tag
		this.chosen = false; // whether the user chose the report; otherwise the page suggests one
	}

	// Shows a report that the user did not choose: a structure verdict makes the clearest picture.
	async suggest(items) {
		const scope = JSON.stringify([this.page.profile.name, this.page.tag]);
		if (this.scope !== scope) {
			this.scope = scope;
			this.chosen = false;
			this.id = null;
		}
		if (this.chosen || this.id !== null) return;
		const pieces = items.filter((item) => item.exposure !== null);
		const best = pieces.find((item) => item.verdict === "structure") ?? pieces[0];
		if (best) await this.show(best.exposure);
		else {
			setText(byId("why-note"), "");
			byId("why-body").replaceChildren(
				h("p", { class: "none" }, "When a device is exposed, the report that exposed it is explained here."),
			);
		}
	}

	async show(id, chosen = false) {
		this.chosen ||= chosen;
		this.id = id;
		if (chosen) setText(byId("why-note"), "loading …");
		let piece;
		try {
			piece = await ask(`/api/exposures/${id}`);
		} catch (error) {
			if (!(error instanceof Refused)) throw error;
			setText(byId("why-note"), "");
			byId("why-body").replaceChildren(h("p", { class: "none" }, error.message));
			return;
		}
		if (this.id !== id) return;
		setText(
			byId("why-note"),
			piece.number
				? `report ${piece.number} of ${piece.device ?? "an unknown device"}, reconstructed`
				: `all reports of ${piece.device} together`,
		);
		byId("why-body").replaceChildren(
			...(piece.picture ? pictures(piece.picture) : []),
			...(piece.evidence.bet ? [odds(piece.evidence.bet)] : []),
			h("p", { class: "sentence" }, piece.sentence),
			h(
				"p",
				{ class: "meta" },
				h("span", { class: "verdict" }, piece.verdict),
				piece.layer === piece.verdict ? "" : `layer ${piece.layer} · `,
				h("time", { datetime: piece.received, title: exact(piece.received) }, ago(piece.received)),
			),
			...(piece.bytes.length ? [bytesOf(piece)] : []),
			...(piece.blamed
				? [
						h(
							"p",
							{ class: "meta" },
							"Recompute it elsewhere: ",
							h("code", {}, `peel gateway exposures --evidence ${id}`),
						),
					]
				: []),
		);
		if (chosen) {
			byId("why").focus({ preventScroll: true });
			byId("why").scrollIntoView({ block: "nearest" });
		}
	}
}

function pictures({ vector, place, sign, k, width, labels, assigned, residual, limit }) {
	const pattern = (spike, direction) =>
		Array.from({ length: width }, (_, each) => direction * ((each === spike ? 1 : 0) - 1 / width));
	const nearest = pattern(place, sign);
	const expected = assigned ?? (place < k ? place : 0);
	const honest = pattern(expected, sign);
	const largest = Math.max(1.1, ...vector.map(Math.abs));
	const most = Math.min(MOST_SPIKES, largest);
	const at = (spike) => labels[spike]?.replaceAll("_", " ") ?? "a place without meaning";
	const within = residual <= limit;
	return [
		h("h3", {}, "An honest report ", h("small", {}, `one spike at ${at(expected)}, the rest flat`)),
		stems({
			vector: honest,
			pattern: honest,
			k,
			most,
			marked: null,
			honest: true,
			label: `An honest report: one spike at ${at(expected)}, the rest flat.`,
		}),
		h(
			"h3",
			{},
			"This report ",
			h(
				"small",
				{ class: within ? "" : "refused" },
				`residual ${Number(residual.toPrecision(2))}, limit ${Number(limit.toPrecision(2))}`,
			),
		),
		stems({
			vector,
			pattern: nearest,
			k,
			most,
			marked: assigned === place ? null : assigned,
			label: `This report: largest at ${at(place)}, ${Number(residual.toPrecision(2))} away from the nearest admissible pattern; honest ones are below ${Number(limit.toPrecision(2))}.`,
		}),
		h(
			"p",
			{ class: "legend" },
			h("span", {}, h("span", { class: "key pattern" }), " nearest admissible pattern"),
			h("span", {}, h("span", { class: "key stem" }), ` reconstructed${largest > most ? `, cut off at ${most} spikes` : ""}`),
			h("span", {}, h("span", { class: "key field" }), ` the ${k} of ${width} places that have a meaning`),
		),
	];
}

// The observed frequency, and the highest frequency of an honest device.
function odds(bet) {
	const bar = new RangeBar();
	const share = bet.events / bet.trials;
	bar.show({
		low: 0,
		high: bet.bound,
		value: share,
		before: null,
		truth: null,
		label: `seen in ${percent(share)} of reports, an honest device at most in ${percent(bet.bound)}`,
	});
	return h(
		"div",
		{ class: "odds" },
		h(
			"p",
			{ class: "number" },
			h("span", { class: "value refused" }, percent(share)),
			h("span", { class: "unit" }, `${bet.events} of ${bet.trials}`),
		),
		h("div", { class: "range" }, h("span", { class: "end" }, "0"), bar.element, h("span", { class: "end" }, "100%")),
		h(
			"p",
			{ class: "legend" },
			`The band is what honest devices reach in the long run, at most ${percent(bet.bound)}. The mark is this device since its report ${bet.since}.`,
		),
	);
}

function bytesOf(piece) {
	return h(
		"details",
		{ class: "bytes" },
		h("summary", {}, `The bytes, ${piece.bytes.reduce((sum, part) => sum + part.hex.length / 2, 0)} of them`),
		h(
			"table",
			{},
			h("thead", {}, h("tr", {}, h("th", {}, "At"), h("th", {}, "Field"), h("th", {}, "Bytes"), h("th", {}, "Means"))),
			h(
				"tbody",
				{},
				piece.bytes.map((part) =>
					h(
						"tr",
						{},
						h("td", { class: "num" }, String(part.at)),
						h("td", {}, part.field),
						h("td", {}, h("code", {}, part.hex)),
						h("td", {}, part.value === null ? "" : String(part.value)),
					),
				),
			),
		),
		h(
			"p",
			{ class: "meta" },
			"Topic ",
			h("code", {}, piece.topic),
			"; ",
			h("a", { href: `/api/exposures/${piece.id}` }, "the same as JSON"),
		),
	);
}
