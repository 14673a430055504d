// The schema, how far the knowledge is trusted, what happens in conflict, and the card.

import { desk } from "./desk.js";
import { listFindings } from "./findings.js";
import { formulaBox, numberBox } from "./formulabox.js";
import { choose, field, make, redraw } from "./make.js";
import { say } from "./words.js";

const OUTSIDE = ["error", "widen", "drop"];

export class SettingsView extends HTMLElement {
  connectedCallback() {
    this.build();
    desk.hear("desk", () => redraw(this, () => this.build()), this);
  }

  build() {
    const { settings, card, schema } = desk.now, number = schema?.number, rows = typeof settings.trust === "object";
    const grave = desk.now.findings.filter((f) => f.cell === null && f.severity === "error" && f.kind !== "example");
    this.replaceChildren(grave.length ? listFindings(grave, () => {}) : "",
      make("section", { class: "card" }, make("h2", {}, say("settings.trust")), make("div", { class: "fields" },
        field(say("settings.lambda"), this.number(rows ? ["trust", "value"] : ["trust"], rows ? settings.trust.value : settings.trust, 0), say("settings.lambda.hint")),
        field(say("settings.reliance"), this.number(["reliance"], settings.reliance), say("settings.reliance.hint")),
        field(say("settings.outside"), choose(OUTSIDE.map((v) => [v, say("outside." + v)]), settings.outside || "error", (v) => this.put(["outside"], v))),
        field(say("settings.conflict"), choose((number ? ["abstain", "project", "error"] : ["abstain", "restrict", "error"]).map((v) => [v, say("conflict." + v)]), settings.conflict || "abstain", (v) => this.put(["conflict"], v)))),
        ...this.regions(settings.trust, rows)),
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

  number(path, value, usual = "") { return numberBox(value, (found) => this.put(path, found), usual); }

  // λ row by row: what the owner says in some rows, and along which features the site learns it
  regions(trust, rows) {
    const { regions, schema } = desk.now, first = schema?.features.find((f) => !f.levels.length && f.low !== null);
    const begin = { where: first ? `${first.name} > ${first.low}` : "", trust: 0.5 };
    const add = () => (rows ? this.put(["trust", "regions", regions.length], begin) : this.put(["trust"], { value: trust ?? 0, regions: [begin] }));
    return [make("h3", {}, say("settings.regions")), make("p", { class: "soft" }, say("settings.regions.help")),
      ...regions.map((region, i) => make("fieldset", { class: "wide" }, make("legend", {}, say("settings.region", { number: i + 1 })),
        formulaBox(say("settings.where"), region.where ?? "", (value) => this.put(["trust", "regions", i, "where"], value ?? ""), true),
        field(say("settings.region.trust"), this.number(["trust", "regions", i, "trust"], region.trust), say("settings.region.hint")),
        make("p", {}, make("button", { onclick: () => this.drop(trust, i) }, say("formulas.remove"))))),
      rows ? field(say("settings.learned"), make("input", { value: (trust.features || []).join(", "), onchange: (e) => this.put(["trust", "features"], names(e.target.value)) }), say("settings.learned.hint")) : "",
      make("p", {}, make("button", { id: "add-region", onclick: add }, say("settings.region.add")))];
  }

  // without regions and features λ is one number again
  drop(trust, place) {
    const last = desk.now.regions.length === 1 && !trust.features?.length && !trust.formula;
    if (last) this.put(["trust"], trust.value ?? 0); else this.put(["trust", "regions", place], null);
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
