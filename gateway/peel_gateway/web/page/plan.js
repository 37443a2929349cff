// SPDX-License-Identifier: MIT
// The planner: a form for another fleet with the chosen profile, its accuracy and its privacy cost.

import { Refused, ask } from "./api.js";
import { byId, h, reconcile, setHidden, setText } from "./dom.js";
import { count, duration, epsilon, percent, plural, short } from "./format.js";

const UNITS = [86400, 3600, 60, 1]; // as in the form
const STRETCHES = { hour: "an hour", day: "a day", week: "a week" };
const pause = (seconds) => (seconds < 10 ? `${seconds} s` : duration(seconds));
const total = (value) => (value < 1000 ? epsilon(value) : `ε ${short(value)}`);
const given = (id) => byId(id).value.trim();

export class Plan {
	constructor(page) {
		this.page = page;
		this.about = null; // the name of the profile that the form was filled from
		byId("plan-form").addEventListener("submit", async (event) => {
			event.preventDefault();
			const wrong = objection();
			if (wrong) this.#say(wrong, null);
			else await this.#answer({
				profile: this.about,
				devices: given("plan-devices"),
				every: given("plan-every") && given("plan-every") * byId("plan-unit").value,
				epsilon: given("plan-epsilon"),
				accuracy: given("plan-accuracy") && given("plan-accuracy") / 100,
				within: byId("plan-within").value,
			});
		});
	}

	// Fills the form from the fleet when another profile is chosen; otherwise keeps what the user typed.
	async show() {
		const { profile } = this.page;
		if (!profile || profile.name === this.about) return;
		this.about = profile.name;
		const found = await this.#answer({ profile: profile.name });
		if (found) fillForm(found.task);
	}

	async #answer(asked) {
		this.asked = asked;
		let found = null;
		let said;
		try {
			found = await ask("/api/plan", asked);
			said = sentence(found, asked);
		} catch (error) {
			if (!(error instanceof Refused && [400, 422].includes(error.status))) throw error;
			said = error.message;
		}
		if (this.asked !== asked) return null;
		this.#say(said, found);
		if (found) showAnswer(found, asked.accuracy);
		return found;
	}

	#say(said, found) {
		setText(byId("plan-said"), said);
		byId("plan-said").classList.toggle("refused", !found);
		byId("plan-answer").classList.toggle("void", !found);
	}
}

// The error of the first wrong field, in the words of its label; the gateway's message would name other units.
function objection() {
	const inputs = [...byId("plan-form").querySelectorAll("input")];
	const wrong = inputs.find((input) => !input.validity.valid);
	for (const input of inputs) input.setAttribute("aria-invalid", input === wrong);
	if (!wrong) return "";
	wrong.focus();
	const kind = wrong.step === "any" ? "number" : "whole number";
	return `${wrong.labels[0].textContent.trim()}: must be a ${kind} from ${wrong.min} to ${count(wrong.max)}.`;
}

function fillForm({ devices, interval_s: seconds, epsilon: each }) {
	const unit = UNITS.find((size) => seconds % size === 0) ?? 1;
	byId("plan-devices").value = devices;
	byId("plan-every").value = seconds / unit;
	byId("plan-unit").value = unit;
	byId("plan-epsilon").value = each;
}

function sentence({ task, accuracy }, asked) {
	const who = plural(task.devices, "device");
	const widths = Object.entries(STRETCHES).map(
		([name, text]) => `±${percent(accuracy.half_width[name])} after ${text}`,
	);
	const open = task.found.includes("devices") ? `It takes ${who}` : who;
	const pace = `a report every ${pause(task.interval_s)} with ${epsilon(task.epsilon)}`;
	return `${open}, ${pace}: ${widths.join(", ")}.${tooLate(task, accuracy, asked)}`;
}

function tooLate(task, { until }, { accuracy, within }) {
	const row = until.find((each) => each.half_width === accuracy);
	if (!row || task.found.length || row.hours * 3600 <= within) return "";
	return ` ±${percent(accuracy)} takes ${duration(row.hours * 3600)}: leave the devices empty to see how many do it in time.`;
}

function showAnswer({ accuracy, privacy, insider, advice }, wanted) {
	showRows(
		"plan-accuracies",
		accuracy.until.map(({ half_width: half, reports, hours }) => ({
			cells: [`±${percent(half)}`, short(reports), duration(hours * 3600)],
			wanted: half === wanted,
		})),
	);
	showRows(
		"plan-budgets",
		["report", "day", "year"].map((name) => {
			const { reports, epsilon: pure, epsilon_at_delta: composed } = privacy[name];
			return { cells: [`A ${name}`, short(reports), total(pure), total(composed)] };
		}),
	);
	setText(
		byId("plan-insider"),
		`One device that lies about its readings moves a figure by at most ${percent(insider.liar_moves)} of its range; ` +
			`one that forges its reports by ${percent(insider.insider_moves_at_first)} until it is exposed ` +
			`(a forged report counts for up to ${count(insider.ratio.cap)} honest ones).`,
	);
	byId("plan-advice").replaceChildren(...advice.map((text) => h("li", {}, `${text}.`)));
	setHidden(byId("plan-advised"), advice.length === 0);
}

function showRows(id, rows) {
	reconcile(
		byId(id).tBodies[0],
		rows,
		({ cells }) => cells[0],
		({ cells }) =>
			h(
				"tr",
				{},
				h("th", { scope: "row" }),
				cells.slice(1).map(() => h("td", { class: "num" })),
			),
		(row, { cells, wanted }) => {
			row.classList.toggle("wanted", wanted === true);
			cells.forEach((text, place) => setText(row.cells[place], text));
		},
	);
}
