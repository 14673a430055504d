// Formulas: what the expert would say, and between which bounds; the fault is marked where it stands.

import { ask } from "./ask.js";
import { desk } from "./desk.js";
import { choose, field, fresh, make } from "./make.js";
import { otherSources } from "./sources.js";
import { say, shown } from "./words.js";

const KEYS = { predict: ["formula"], range: ["lower", "upper"] };

export class FormulasView extends HTMLElement {
  connectedCallback() {
    this.build();
    desk.hear("desk", () => this.build(), this);
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
      make("button", { onclick: () => this.add("predict", { formula: "0" }) }, say("formulas.predict")),
      make("button", { onclick: () => this.add("range", { lower: "0", upper: "100" }) }, say("formulas.range"))));
    parts.push(...otherSources());
    this.replaceChildren(make("datalist", { id: "names" }, (desk.now.schema?.features || []).map((f) => make("option", { value: f.name }))), ...parts);
  }

  source(side, place, source) {
    const path = [side, "sources", place];
    const rows = KEYS[side].filter((key) => key in source || side === "range").map((key) => this.formula(key, source[key] ?? "", [...path, key]));
    const more = [];
    if (desk.now.schema && !desk.now.schema.number) {
      more.push(field(say("formulas.edges", { count: desk.now.schema.classes.length - 1 }), make("input", {
        class: "formula", value: (source.edges || []).join(", "),
        onchange: (e) => this.edges([...path, "edges"], e.target),
      })));
    }
    if (side === "predict") {
      more.push(field(say("formulas.spread"), make("input", { value: source.spread ?? "", inputMode: "decimal", onchange: (e) => this.number([...path, "spread"], e.target, source.spread) })));
    } else if (!desk.now.schema?.number) {
      more.push(field(say("formulas.crossed"), choose(["error", "all"], source.crossed || "error", (value) => desk.edit([{ path: [...path, "crossed"], value }], say("view.formulas")))));
    }
    return make("section", { class: "card", "aria-label": say(side) }, make("h3", {}, say(side + ".long")), ...rows, make("div", { class: "fields" }, ...more),
      make("p", {}, make("button", { onclick: () => desk.edit([{ path, value: null }], say("view.formulas")) }, say("formulas.remove"))));
  }

  formula(key, text, path) {
    const note = make("pre", { class: "note formula", id: fresh("note"), "aria-live": "polite" });
    const box = make("textarea", { class: "formula", rows: 2, value: text, spellcheck: false, "aria-describedby": note.id,
      oninput: () => this.look(box, note), onkeydown: (e) => complete(e, box),
      onchange: () => (box.value.trim() ? desk.edit([{ path, value: box.value.trim() }], say("view.formulas")) : text && desk.edit([{ path, value: null }], say("view.formulas"))) });
    if (text) this.look(box, note);
    const one = field(say("formulas." + key), box);
    one.append(note);
    return one;
  }

  async look(box, note) {
    const text = box.value;
    const said = await ask("/api/formula", { text }).catch((error) => ({ ok: false, message: error.message, position: null }));
    if (box.value !== text) return;                    // typed on in the meantime
    box.classList.toggle("wrong", !said.ok && text !== "");
    if (said.ok) note.textContent = said.low === null ? say("formulas.good") : say("formulas.bounds", { low: shown(said.low, 4), high: shown(said.high, 4) });
    else note.textContent = text === "" ? "" : said.position === null ? said.message : `${line(text, said.position)}\n${said.message}`;
    note.className = `note formula${said.ok ? " soft" : " bad"}`;
  }

  edges(path, box) {
    const found = box.value.split(/[;\s]+|,(?=\s)|,$/).map((part) => part.trim().replace(",", ".")).filter(Boolean).map(Number);
    box.classList.toggle("wrong", found.some(Number.isNaN));
    if (!found.some(Number.isNaN) && found.length) desk.edit([{ path, value: found }], say("view.formulas"));
  }

  number(path, box, before) {
    const value = box.value.trim() === "" ? null : Number(box.value.replace(",", "."));
    if (Number.isNaN(value)) { box.classList.add("wrong"); return; }
    if (value !== null || before !== undefined) desk.edit([{ path, value }], say("view.formulas"));
  }

  add(side, source) { desk.edit([{ path: [side, "sources", desk.now.sources[side].length], value: source }], say("view.formulas")); }
}

// the line of the fault with a mark below it
function line(text, position) {
  const begin = text.lastIndexOf("\n", position - 1) + 1;
  const end = text.indexOf("\n", position);
  return `${text.slice(begin, end < 0 ? undefined : end)}\n${" ".repeat(position - begin)}^`;
}

// Tab behind the beginning of a name writes the rest of it, where there is one rest only
function complete(event, box) {
  if (event.key !== "Tab" || event.shiftKey) return;
  const before = box.value.slice(0, box.selectionStart), word = /[\p{L}_][\p{L}\p{N}_]*$/u.exec(before)?.[0];
  const names = [...(desk.now.schema?.features.map((f) => f.name) || []), "where", "min", "max", "log10", "log", "exp", "sqrt", "abs", "interpolate"];
  const found = word ? names.filter((name) => name.startsWith(word) && name !== word) : [];
  if (found.length !== 1) return;
  event.preventDefault();
  box.setRangeText(found[0].slice(word.length), box.selectionStart, box.selectionEnd, "end");
  box.dispatchEvent(new Event("input"));
}

customElements.define("formulas-view", FormulasView);
