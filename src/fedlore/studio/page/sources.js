// Sources that are neither tables nor formulas: models in a file, and ranges calibrated on rows.

import { desk } from "./desk.js";
import { choose, field, make } from "./make.js";
import { say, shown } from "./words.js";

const told = () => say("sources.title");

export function otherSources() {
  const { sources, data, models } = desk.now, parts = [make("h2", {}, say("sources.title")), make("p", { class: "soft" }, say("sources.help"))];
  sources.predict.forEach((source, place) => { if ("onnx" in source) parts.push(model(source, ["predict", "sources", place])); });
  sources.range.forEach((source, place) => { if ("conformal" in source) parts.push(calibrated(source.conformal, ["range", "sources", place])); });
  if (models.length) {
    const file = choose(models, models[0], () => {});
    parts.push(make("section", { class: "card" }, make("h3", {}, say("sources.model.new")), make("div", { class: "fields" }, field(say("sources.model"), file)),
      make("p", {}, make("button", { id: "add-model", onclick: () => desk.edit([{ path: ["predict", "sources", sources.predict.length], value: { onnx: file.value, soft: true } }], told()) }, say("sources.add")))));
  }
  if (data && sources.predict.length === 1) parts.push(calibrate());
  return parts;
}

const remove = (path) => make("p", {}, make("button", { onclick: () => desk.edit([{ path, value: null }], told()) }, say("formulas.remove")));

function model(source, path) {
  const put = (key, value) => desk.edit([{ path: [...path, key], value }], told());
  return make("section", { class: "card", "aria-label": source.onnx }, make("h3", {}, say("sources.model"), " ", source.onnx), make("div", { class: "fields" },
    field(say("sources.soft"), choose([["yes", say("yes")], ["no", say("no")]], source.soft ? "yes" : "no", (v) => put("soft", v === "yes"))),
    field(say("sources.gives"), choose(["probabilities", "logits"], source.gives || "probabilities", (v) => put("gives", v)))), remove(path));
}

function calibrated(source, path) {
  return make("section", { class: "card", "aria-label": say("sources.calibrated") }, make("h3", {}, say("sources.calibrated")),
    make("p", {}, say("sources.calibrated.long", { level: shown(100 * (1 - source.alpha), 4), rows: source.rows ?? 0 })), remove(path));
}

function calibrate() {
  const alpha = make("input", { value: "5", inputMode: "decimal" }), each = choose([["no", say("no")], ["yes", say("yes")]], "no", () => {});
  const begin = () => {
    const share = Number(alpha.value.replace(",", ".")) / 100;
    alpha.classList.toggle("wrong", !(share > 0 && share < 1));
    if (share > 0 && share < 1) desk.change("/api/calibrate", { alpha: share, per_class: each.value === "yes" });
  };
  return make("section", { class: "card" }, make("h3", {}, say("sources.calibrate")), make("p", { class: "soft" }, say("sources.calibrate.help")),
    make("div", { class: "fields" }, field(say("sources.alpha"), alpha), desk.now.schema?.number ? null : field(say("sources.each"), each)),
    make("p", {}, make("button", { id: "calibrate", onclick: begin }, say("sources.measure"))));
}
