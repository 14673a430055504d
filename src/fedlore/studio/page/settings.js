// The schema, how far the knowledge is trusted, what happens in conflict, and the card.

import { desk } from "./desk.js";
import { choose, field, make } from "./make.js";
import { say } from "./words.js";

const OUTSIDE = ["error", "widen", "drop"];

export class SettingsView extends HTMLElement {
  connectedCallback() {
    this.build();
    desk.hear("desk", () => this.build(), this);
  }

  build() {
    const { settings, card, schema } = desk.now, number = schema?.number, rows = typeof settings.trust === "object";
    this.replaceChildren(
      make("section", { class: "card" }, make("h2", {}, say("settings.trust")), make("div", { class: "fields" },
        field(say("settings.lambda"), this.number(rows ? ["trust", "value"] : ["trust"], rows ? settings.trust.value : settings.trust, 0), say("settings.lambda.hint")),
        rows ? field(say("settings.rows"), make("output", { class: "soft" }, settings.rows ?? ""), say("settings.rows.hint")) : "",
        field(say("settings.reliance"), this.number(["reliance"], settings.reliance), say("settings.reliance.hint")),
        field(say("settings.outside"), choose(OUTSIDE.map((v) => [v, say("outside." + v)]), settings.outside || "error", (v) => this.put(["outside"], v))),
        field(say("settings.conflict"), choose((number ? ["abstain", "project", "error"] : ["abstain", "restrict", "error"]).map((v) => [v, say("conflict." + v)]), settings.conflict || "abstain", (v) => this.put(["conflict"], v))))),
      make("section", {}, make("h2", {}, say("settings.features")), make("p", { class: "soft" }, say("settings.features.help")), this.features()),
      make("section", { class: "card" }, make("h2", {}, say("settings.classes")), number ? make("p", { class: "soft" }, say("settings.number")) : make("div", { class: "fields" },
        field(say("settings.label"), this.text(["label"], settings.label)),
        field(say("settings.names"), make("input", { value: (settings.classes || []).join(", "), onchange: (e) => this.put(["classes"], names(e.target.value)) }), say("settings.names.hint")),
        field(say("settings.ordered"), choose([["", say("ordered.auto")], ["yes", say("yes")], ["no", say("no")]], settings.ordered === undefined ? "" : settings.ordered ? "yes" : "no",
          (v) => (v || settings.ordered !== undefined) && this.put(["ordered"], v === "" ? null : v === "yes"))))),
      make("section", { class: "card" }, make("h2", {}, say("settings.card")), make("div", { class: "fields" },
        ["owner", "version", "date", "reference", "note"].map((key) => field(say("card." + key), this.text(["card", key], card[key]))))),
    );
  }

  put(path, value) { desk.edit([{ path, value }], say("view.settings")); }

  text(path, value = "") { return make("input", { value, onchange: (e) => (e.target.value || value) && this.put(path, e.target.value) }); }

  number(path, value, usual = "") {
    return make("input", { value: value ?? usual, inputMode: "decimal", onchange: (e) => {
      const text = e.target.value.trim().replace(",", ".");
      if (text === "") { if (value !== undefined && value !== null) this.put(path, null); return; }
      e.target.classList.toggle("wrong", Number.isNaN(Number(text)));
      if (!Number.isNaN(Number(text))) this.put(path, Number(text));
    } });
  }

  features() {
    const list = desk.now.schema?.features;
    if (!list) return make("p", { class: "warn" }, say("schema.first"));
    const head = ["name", "unit", "low", "high", "levels", "missing"].map((key) => make("th", { scope: "col" }, say("feature." + key)));
    const labelled = (box, feature, key) => { box.setAttribute("aria-label", `${feature.name}: ${say("feature." + key)}`); return make("td", {}, box); };
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": say("settings.features") }, make("table", { class: "plain" }, make("thead", {}, make("tr", {}, head)),
      make("tbody", {}, list.map((f, i) => make("tr", {}, make("th", { scope: "row" }, f.name),
        labelled(this.text(["features", i, "unit"], f.unit), f, "unit"),
        f.levels.length ? make("td") : labelled(this.number(["features", i, "low"], f.low), f, "low"),
        f.levels.length ? make("td") : labelled(this.number(["features", i, "high"], f.high), f, "high"),
        f.levels.length ? labelled(make("input", { value: f.levels.join(", "), onchange: (e) => this.put(["features", i, "levels"], names(e.target.value)) }), f, "levels") : make("td"),
        labelled(choose(missing(f), String(f.missing), (v) => this.put(["features", i, "missing"], v)), f, "missing"))))));
  }
}

const names = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);

function missing(feature) {
  const known = feature.levels.length ? ["refuse", "level"] : ["refuse", "mean", "median"];
  return [...new Set([...known, String(feature.missing)])].map((v) => [v, known.includes(v) ? say("missing." + v) : v]);
}

customElements.define("settings-view", SettingsView);
