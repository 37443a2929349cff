// SPDX-License-Identifier: MIT
// Builds the page: holds the choices, refreshes the panels, switches between states.

import { Refused, Unreachable, ask, tell } from "./api.js";
import { Alerts } from "./alerts.js";
import { Change } from "./change.js";
import { Controls } from "./controls.js";
import { History } from "./history.js";
import { Demo } from "./demo.js";
import { Devices } from "./devices.js";
import { byId, setHidden, setText } from "./dom.js";
import { showEmpty } from "./empty.js";
import { Estimates } from "./estimates.js";
import { Exposed } from "./exposed.js";
import { showFooter } from "./footer.js";
import { showHeader, showLost } from "./header.js";
import { Layers } from "./layers.js";
import { Plan } from "./plan.js";
import { showPrivacy } from "./privacy.js";
import { Stream } from "./stream.js";
import { Why } from "./why.js";

const REFRESH_SECONDS = 2;
const RETRY_SECONDS = 2;
const QUIET_SECONDS = 10; // refresh the panels after so long without news, because devices fall silent
const MOST_OF_THE_TIME = 4; // a pause is at least so many times as long as the refresh before it

const page = {
	summary: null,
	profiles: [],
	tags: [],
	paths: [],
	profile: null, // the chosen one
	tag: null, // the chosen one; null is all devices
	seconds: 86400, // the chosen window; null is all
	demo: null,
	since() {
		if (this.seconds === null) return null;
		const step = Math.max(this.summary?.store.bucket_seconds ?? 1, this.seconds / 60); // steps, so that the gateway can serve repeated queries from its cache
		return Math.floor((Date.now() / 1000 - this.seconds) / step) * step;
	},
};

const why = new Why(page);
const demo = new Demo(page, () => refresh());
const estimates = new Estimates(page, () => history.refresh());
const history = new History(page, estimates);
const change = new Change(page, estimates);
const exposed = new Exposed(page, why, history);
const devices = new Devices(page, why);
const layers = new Layers(page);
const plan = new Plan(page);
const controls = new Controls(page, () => {
	showPrivacy(page);
	plan.show();
	refresh();
});
const panels = [demo, new Alerts(), estimates, history, change, exposed, devices];

function hear(table, polling = false) {
	const quiet = performance.now() - asked > QUIET_SECONDS * 1000;
	const news = table.totals.generation !== page.summary?.totals.generation || document.body.dataset.state !== "live";
	page.summary = table;
	page.polling = polling;
	setState("live");
	showHeader(page);
	showEmpty(page);
	showFooter(page);
	layers.show();
	if (news || quiet) wish();
}

// The old data stays on the page, in grey.
function lose(cause) {
	if (document.body.dataset.state === "live") setState("stale");
	showLost(cause);
}

function loseBy(error) {
	if (error instanceof Refused) showTrouble(error.message);
	lose(error instanceof Refused ? "the gateway refused" : undefined);
}

const stream = new Stream({
	summary: (table) => hear(table),
	trouble(text) {
		showTrouble(`The store cannot be read: ${text}`);
		lose("store unreadable");
	},
	// If the gateway still responds, all streams are taken: poll instead.
	async lost() {
		try {
			hear(await ask("/api/summary"), true);
		} catch (error) {
			loseBy(error);
		}
	},
	again: () => start(),
});

// News refreshes the panels after a pause; a choice of the user refreshes them at once.
let asking = false;
let wished = false;
let hurried = false;
let pause = 0;
let asked = 0; // time of the last refresh

function wish() {
	wished = true;
	if (!asking && !pause && !document.hidden) refresh();
}

async function refresh() {
	if (asking) {
		hurried = true;
		return;
	}
	clearTimeout(pause);
	asking = true;
	wished = false;
	hurried = false;
	const begun = performance.now();
	asked = begun;
	let failure = null;
	for (const panel of panels) await panel.refresh().catch((error) => (failure ??= error)); // go on with the other panels
	asking = false;
	const took = performance.now() - begun;
	pause = setTimeout(
		() => {
			pause = 0;
			if (wished) wish();
		},
		hurried ? 0 : Math.max(REFRESH_SECONDS * 1000, MOST_OF_THE_TIME * took),
	);
	wished ||= hurried;
	if (failure) report(failure);
	else showTrouble("");
}

// Show errors of click handlers like all others.
window.addEventListener("unhandledrejection", (event) => {
	event.preventDefault();
	report(event.reason);
});

function report(error) {
	if (error instanceof Refused && error.status === 401) showLogin();
	else if (error instanceof Unreachable) lose();
	else {
		showTrouble(error.message);
		if (!(error instanceof Refused)) throw error;
	}
}

function showTrouble(text) {
	setText(byId("trouble"), text);
	setHidden(byId("trouble"), !text);
}

// loading, live, stale, login
function setState(state) {
	document.body.dataset.state = state;
	setHidden(byId("login"), state !== "login");
	setHidden(byId("main"), page.summary === null || state === "login");
}

function showLogin() {
	stream.close();
	setState("login");
	showTrouble("");
	setHidden(byId("health"), true);
	const ended = page.summary === null ? "" : "The session has ended. ";
	setText(byId("lede"), `${ended}Log in with the token to see estimates, exposed devices and the evidence.`);
	byId("light").dataset.light = "unknown";
	setText(byId("light"), "logged out");
	setHidden(byId("logout"), true);
	byId("token").focus();
}

byId("login-form").addEventListener("submit", async (event) => {
	event.preventDefault();
	const error = byId("login-error");
	try {
		await tell("/login", { token: byId("token").value });
		byId("token").value = "";
		setHidden(error, true);
		start();
	} catch (refused) {
		setText(error, refused.message);
		setHidden(error, false);
		byId("token").select();
	}
});

byId("logout").addEventListener("click", async () => {
	await tell("/logout").catch(report);
	location.reload();
});

document.addEventListener("visibilitychange", () => {
	if (!document.hidden && wished) wish();
});

async function start() {
	try {
		const { open, session } = await ask("/login");
		if (!open) {
			showLogin();
			return;
		}
		setHidden(byId("logout"), !session);
		const asked = ["/api/profiles", "/api/tags", "/api", "/api/layers"].map((path) => ask(path));
		[page.profiles, page.tags, page.paths, layers.table] = (await Promise.all(asked)).map(({ items }) => items);
	} catch (error) {
		if (error instanceof Refused && error.status === 401) showLogin();
		else {
			loseBy(error);
			setTimeout(start, RETRY_SECONDS * 1000);
			if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
		}
		return;
	}
	controls.show();
	showPrivacy(page);
	plan.show();
	stream.open();
}

start();
