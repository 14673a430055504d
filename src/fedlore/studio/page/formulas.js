// Formulas: what the expert would say, and between which bounds; and every other source that is no table.

import { desk } from "./desk.js";
import { listFindings } from "./findings.js";
import { confidenceBox, formulaBox, numberBox } from "./formulabox.js";
import { choose, field, make, redraw } from "./make.js";
import { shapeForms } from "./shapes.js";
import { otherSources } from "./sources.js";
import { say } from "./words.js";

const KEYS = { predict: ["formula"], range: ["lower", "upper"] };

export class FormulasView extends HTMLElement {
  connectedCallback() {
    this.build();
    desk.hear("desk", () => redraw(this, () => this.build()), this);
  }

  build() {
    const parts = [make("h2", {}, say("view.formulas")), make("p", { class: "soft" }, say("formulas.help"))];
    if (desk.now.schema) {
      parts.push(make("p", { class: "soft" }, say("formulas.names"), " ", ...desk.now.schema.features.map((f) => make("span", { class: "chip" }, f.name))));
    }
    for (const side of ["predict", "range"]) {
      desk.now.sources[side].forEach((source, place) => {
        if (KEYS[side].some((key) => key in source)) parts.push(this.source(side, place, source));
      });
    }
    parts.push(make("p", { class: "line" },
      make("button", { id: "add-formula", onclick: () => this.add("predict", { formula: "0" }) }, say("formulas.predict")),
      make("button", { id: "add-limits", onclick: () => this.add("range", { lower: "0", upper: "100" }) }, say("formulas.range"))));
    parts.push(...shapeForms(), ...otherSources());
    const own = desk.now.findings.filter((f) => f.cell === null && f.kind !== "example");
    this.replaceChildren(make("div", { class: "split" }, make("section", { "aria-label": say("view.formulas") }, parts),
      make("aside", { "aria-label": say("findings") }, make("h2", {}, say("findings")), listFindings(own, () => {}))));
  }

  source(side, place, source) {
    const path = [side, "sources", place], put = (key, value) => desk.edit([{ path: [...path, key], value }], say("view.formulas"));
    const rows = KEYS[side].filter((key) => key in source || side === "range").map((key) => formulaBox(say("formulas." + key), source[key] ?? "", (value) => put(key, value)));
    const more = [], { schema } = desk.now;
    if (schema && !schema.number) {
      more.push(field(say("formulas.edges", { count: schema.classes.length - 1 }), make("input", {
        class: "formula", value: (source.edges || []).join(", "),
        onchange: (e) => this.edges([...path, "edges"], e.target),
      })));
    }
    if (side === "predict") more.push(field(say("formulas.spread"), numberBox(source.spread, (value) => put("spread", value))));
    else if (!schema?.number) more.push(field(say("formulas.crossed"), choose(["error", "all"], source.crossed || "error", (value) => put("crossed", value))));
    if (!schema?.number) more.push(confidenceBox(source.confidence, (value) => put("confidence", value)));
    return make("section", { class: "card", "aria-label": say(side) }, make("h3", {}, say(side + ".long")), ...rows, make("div", { class: "fields" }, ...more),
      make("p", {}, make("button", { onclick: () => desk.edit([{ path, value: null }], say("view.formulas")) }, say("formulas.remove"))));
  }

  edges(path, box) {
    const found = box.value.split(/[;\s]+|,(?=\s)|,$/).map((part) => part.trim().replace(",", ".")).filter(Boolean).map(Number);
    box.classList.toggle("wrong", found.some(Number.isNaN));
    if (!found.some(Number.isNaN) && found.length) desk.edit([{ path, value: found }], say("view.formulas"));
  }

  add(side, source) { desk.edit([{ path: [side, "sources", desk.now.sources[side].length], value: source }], say("view.formulas")); }
}

customElements.define("formulas-view", FormulasView);
