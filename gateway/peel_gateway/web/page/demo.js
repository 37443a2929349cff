// SPDX-License-Identifier: MIT
// What only a demonstration has: the truth, the attackers' roles, and switches for attacks.

import { ask, tell } from "./api.js";
import { byId, h, reconcile, setHidden, setText } from "./dom.js";
import { plural } from "./format.js";

const PATH = "/api/demo";

export class Demo {
  constructor(page, changed) {
    this.page = page;
    this.changed = changed;
    this.table = null;
  }

  async refresh() {
    if (!this.page.paths.some(({ path }) => path === PATH)) return;
    this.table = await ask(PATH);
    this.page.demo = this;
    setHidden(byId("demo"), false);
    reconcile(byId("demo-attacks"), this.table.attacks, (attack) => attack.name, (attack) => this.#make(attack), (row, attack) => this.#update(row, attack));
  }

  truth(profile, name) {
    return this.table.truth[profile]?.[name] ?? null;
  }

  roleOf(device) {
    const role = this.table.roles[device];
    return role ? `role: ${role.replaceAll("_", " ")}` : "";
  }

  #make(attack) {
    const row = h("li", {});
    const toggle = h("button", { role: "switch", "aria-checked": "false", onclick: () => this.#turn(attack.name, toggle.getAttribute("aria-checked") !== "true") });
    row.parts = { toggle, note: h("span", { class: "note" }) };
    toggle.append(h("span", { class: "knob", "aria-hidden": "true" }), attack.name.replaceAll("_", " "));
    row.append(toggle, h("p", {}, attack.help, " ", row.parts.note));
    return row;
  }

  #update(row, attack) {
    row.parts.toggle.setAttribute("aria-checked", String(attack.on));
    const who = attack.by_device ? plural(attack.devices, "device") : "on the line";
    setText(row.parts.note, `${who} · ${attack.layer ? `layer ${attack.layer}` : "no layer can see it"}`);
  }

  async #turn(name, on) {
    await tell(`${PATH}/attacks`, { name, on: on ? "yes" : "no" });
    await this.refresh();
    this.changed();
  }
}
