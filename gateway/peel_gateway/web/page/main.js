// SPDX-License-Identifier: MIT
// Puts the page together: what is chosen, when to ask again, which state the page is in.

import { Refused, Unreachable, ask, tell } from "./api.js";
import { Controls } from "./controls.js";
import { Course } from "./course.js";
import { Demo } from "./demo.js";
import { Devices } from "./devices.js";
import { byId, setHidden, setText } from "./dom.js";
import { showEmpty } from "./empty.js";
import { Estimates } from "./estimates.js";
import { Exposed } from "./exposed.js";
import { showFooter } from "./footer.js";
import { showHeader, showLost } from "./header.js";
import { Layers } from "./layers.js";
import { showPrivacy } from "./privacy.js";
import { Stream } from "./stream.js";
import { Why } from "./why.js";

const REFRESH_SECONDS = 2;
const RETRY_SECONDS = 2;
const MOST_OF_THE_TIME = 4; // pauses are at least so many times as long as the answers took

const page = {
  summary: null,
  profiles: [],
  groups: [],
  paths: [],
  profile: null, // the chosen one
  group: null, // the chosen one's name; null is everybody
  seconds: null, // the chosen window; null is all
  demo: null,
  since() {
    return this.seconds === null ? null : (Date.now() / 1000 - this.seconds).toFixed(0);
  },
};

const why = new Why(page);
const demo = new Demo(page, () => refresh());
const estimates = new Estimates(page, () => course.refresh());
const course = new Course(page, estimates);
const exposed = new Exposed(page, why, course);
const devices = new Devices(page, why);
const layers = new Layers(page);
const controls = new Controls(page, () => {
  showPrivacy(page);
  refresh();
});
const panels = [estimates, course, exposed, devices];

const stream = new Stream({
  summary(table) {
    const news = table.totals.generation !== page.summary?.totals.generation || document.body.dataset.state !== "live";
    page.summary = table;
    setState("live");
    showHeader(page);
    showEmpty(page);
    showFooter(page);
    layers.show();
    if (news) wish();
  },
  trouble: (text) => showTrouble(`The store cannot be read: ${text}`),
  lost() {
    if (document.body.dataset.state === "live") setState("stale");
    showLost();
  },
  again: () => start(),
});

// Panels are asked for again when there is news, but never while they still answer, nor all the time.
let wished = false;
let busy = false;

function wish() {
  wished = true;
  if (!busy && !document.hidden) refresh();
}

async function refresh() {
  if (busy) {
    wished = true;
    return;
  }
  busy = true;
  wished = false;
  const begun = performance.now();
  try {
    await demo.refresh();
    for (const panel of panels) await panel.refresh();
    showTrouble("");
  } catch (error) {
    report(error);
  }
  const took = performance.now() - begun;
  setTimeout(() => {
    busy = false;
    if (wished && !document.hidden) refresh();
  }, Math.max(REFRESH_SECONDS * 1000, MOST_OF_THE_TIME * took));
}

function report(error) {
  if (error instanceof Refused && error.status === 401) showLogin();
  else if (error instanceof Unreachable) showLost();
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
  setText(byId("lede"), "Estimates, exposed devices and their evidence are for those who know the token.");
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
    const asked = ["/api/profiles", "/api/groups", "/api", "/api/layers"].map((path) => ask(path));
    [page.profiles, page.groups, page.paths, layers.table] = (await Promise.all(asked)).map(({ items }) => items);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) showLogin();
    else {
      showLost();
      setTimeout(start, RETRY_SECONDS * 1000);
      if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    }
    return;
  }
  controls.show();
  showPrivacy(page);
  stream.open();
}

start();
