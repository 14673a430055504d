// One row tried: by fields, sliders or a pasted line; what each rule does with it; maps and curves.

import { ask } from "./ask.js";
import { parseTable } from "./clipboard.js";
import { scope } from "./columns.js";
import { desk } from "./desk.js";
import { choose, field, make } from "./make.js";
import { drawCurve, drawMap } from "./plots.js";
import { say } from "./words.js";
import { tellVerdict } from "./verdict.js";

let pair = null;        // the features of the map
let along = null;       // the feature of the curve

export class TryView extends HTMLElement {
  connectedCallback() {
    this.build();
    desk.hear("desk", () => this.build(), this);
    desk.hear("findings", () => this.answer(), this);
  }

  build() {
    const { schema } = desk.now;
    if (!schema) { this.replaceChildren(make("p", { class: "warn" }, say("schema.first"))); return; }
    const names = schema.features.map((f) => f.name);
    const old = desk.tried || {};
    desk.tried = Object.fromEntries(schema.features.map((f) => [f.name, old[f.name] ?? start(f)]));
    const used = usedIn(desk.now), order = [...names.filter((n) => used.has(n)), ...names.filter((n) => !used.has(n))];
    pair = pair?.every((n) => names.includes(n)) ? pair : order.slice(0, 2);
    along = names.includes(along) ? along : order[0];
    this.inputs = new Map();
    const paste = make("textarea", { rows: 1, spellcheck: false, placeholder: say("try.paste.hint"), oninput: () => this.paste(paste) });
    this.result = make("section", { class: "card", "aria-live": "polite", "aria-label": say("try.answer") });
    this.plots = make("div");
    this.replaceChildren(make("div", { class: "halves" },
      make("section", { "aria-label": say("try.row") }, make("h2", {}, say("try.row")), field(say("try.paste"), paste),
        make("div", { class: "fields" }, schema.features.filter((f) => used.has(f.name)).map((f) => this.control(f))),
        used.size < names.length ? make("details", { open: !used.size }, make("summary", {}, say("try.others", { count: names.length - used.size })),
          make("div", { class: "fields" }, schema.features.filter((f) => !used.has(f.name)).map((f) => this.control(f)))) : ""),
      make("div", {}, this.result)), this.plots);
    this.answer();
  }

  control(feature) {
    const change = (value) => { desk.tried[feature.name] = value; this.answer(); };
    if (feature.levels.length) {
      const box = choose(feature.missing === "refuse" ? feature.levels : ["", ...feature.levels], desk.tried[feature.name], change);
      this.inputs.set(feature.name, [box]);
      return field(feature.name, box);
    }
    const box = make("input", { value: typed(desk.tried[feature.name]), inputMode: "decimal", autocomplete: "off" });
    const ends = feature.low !== null && feature.high !== null;
    const slide = ends ? make("input", { type: "range", min: feature.low, max: feature.high, step: (feature.high - feature.low) / 200, value: box.value, tabindex: -1, "aria-label": feature.name }) : null;
    box.addEventListener("input", () => { if (slide) slide.value = box.value.replace(",", "."); change(box.value); });
    slide?.addEventListener("input", () => { box.value = typed(Number(Number(slide.value).toPrecision(4))); change(box.value); });
    this.inputs.set(feature.name, [box, slide]);
    const one = field(feature.name, box, feature.have ? scope(feature) : say("try.absent"));
    if (slide) one.insertBefore(slide, one.lastChild);
    return one;
  }

  set(values) {
    Object.assign(desk.tried, values);
    for (const [name, value] of Object.entries(values)) {
      for (const box of this.inputs.get(name) || []) if (box) box.value = box.type === "range" ? String(value).replace(",", ".") : typed(value);
    }
    this.answer();
  }

  paste(box) {
    const rows = parseTable(box.value.includes("\t") ? box.value : box.value.replaceAll(";", "\t"));
    const names = desk.now.schema.features.map((f) => f.name);
    const head = rows[0].map((cell) => cell.split("[")[0].trim());
    const named = rows.length > 1 && head.some((cell) => names.includes(cell));
    const values = named ? rows[1] : rows[0];
    if (!named && values.length < names.length) return;
    this.set(Object.fromEntries(names.map((name, i) => [name, values[named ? head.indexOf(name) : i]]).filter(([, v]) => v !== undefined).map(([n, v]) => [n, v.trim()])));
  }

  async answer() {
    const number = (this.asked = (this.asked || 0) + 1), row = desk.tried;
    await desk.settle();
    try {
      const said = await ask("/api/try", { row });
      if (number !== this.asked || !this.isConnected) return;
      this.result.replaceChildren(...tellVerdict(said, desk.now.schema, (values) => this.set(values)));
      this.draw(row, number);
    } catch (error) {
      if (number !== this.asked) return;
      this.result.replaceChildren(make("h2", {}, say("try.answer")), make("p", { class: "warn" }, error.message || say("away")));
      this.plots.replaceChildren();
    }
  }

  async draw(row, number) {
    const { schema } = desk.now, names = schema.features.map((f) => f.name);
    const wanted = names.length > 1 ? ask("/api/map", { row, features: pair }) : null;
    const [curve, area] = await Promise.all([ask("/api/curve", { row, features: [along] }), wanted]);
    if (number !== this.asked || !this.isConnected) return;
    curve.level = row[along];
    const picked = (value) => this.set({ [along]: value });
    const parts = [];
    if (area) {
      area.level = pair.map((name) => row[name]);
      const pick = (place) => choose(names.filter((n) => n !== pair[1 - place]), pair[place], (v) => { pair = place ? [pair[0], v] : [v, pair[1]]; this.answer(); });
      parts.push(make("section", { "aria-label": say("map") }, make("h2", {}, say("map")), make("p", { class: "soft" }, say("map.help")),
        make("div", { class: "fields" }, field(say("map.across"), pick(0)), field(say("map.up"), pick(1))),
        drawMap(area, schema, (a, b) => this.set({ [pair[0]]: a, [pair[1]]: b }))));
    }
    parts.push(make("section", { "aria-label": say("curve") }, make("h2", {}, say("curve")), make("p", { class: "soft" }, say("curve.help")),
      field(say("curve.along"), choose(names, along, (v) => { along = v; this.answer(); })), drawCurve(curve, schema, picked),
      schema.number ? "" : make("p", { class: "soft" }, say("curve.order", { first: schema.classes[0], last: schema.classes.at(-1) }))));
    this.plots.replaceChildren(make("div", { class: "halves" }, parts));
  }
}

// the features that some rule or formula asks for
function usedIn({ grids, sources, schema }) {
  const text = [...grids.flatMap((grid) => grid.header), ...Object.values(sources).flat().flatMap((s) => [s.formula, s.lower, s.upper])].join(" ");
  const words = new Set(text.match(/[\p{L}_][\p{L}\p{N}_]*/gu) || []);
  const found = new Set(schema.features.map((f) => f.name).filter((name) => words.has(name)));
  return found.size ? found : new Set(schema.features.map((f) => f.name));
}

const typed = (value) => (typeof value === "number" ? String(value) : value ?? "");

// the middle of the scope, in few digits; the first level; nothing where the site does not measure it
function start(feature) {
  if (!feature.have) return "";
  if (feature.levels.length) return feature.levels[0];
  const low = feature.low ?? Math.min(0, feature.high ?? 0), high = feature.high ?? Math.max(1, low + 1);
  return Number(((low + high) / 2).toPrecision(4));
}

customElements.define("try-view", TryView);
