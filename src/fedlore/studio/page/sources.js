// Sources that are neither tables nor formulas: models in a file, ranges calibrated on rows, and kinds without a form.

import { desk } from "./desk.js";
import { choose, field, make } from "./make.js";
import { say, shown } from "./words.js";

const told = () => say("sources.title"), SHOWN = ["table", "formula", "lower", "upper"];

export function otherSources() {
  const { sources, data, models } = desk.now, parts = [make("h2", {}, say("sources.title")), make("p", { class: "soft" }, say("sources.help"))];
  let measured = false;
  for (const side of ["predict", "range"]) {
    sources[side].forEach((source, place) => {
      const path = [side, "sources", place];
      if (SHOWN.some((key) => key in source)) return;
      if ("onnx" in source) parts.push(model(source, path));
      else if ("conformal" in source) { measured = true; parts.push(calibrate(source.conformal, path)); }
      else parts.push(unknown(source, path));
    });
  }
  if (models.length) {
    const file = choose(models, models[0], () => {});
    parts.push(make("section", { class: "card" }, make("h3", {}, say("sources.model.new")), make("div", { class: "fields" }, field(say("sources.model"), file)),
      make("p", {}, make("button", { id: "add-model", onclick: () => desk.edit([{ path: ["predict", "sources", sources.predict.length], value: { onnx: file.value, soft: true } }], told()) }, say("sources.add")))));
  }
  if (data && !measured && sources.predict.length === 1) parts.push(calibrate());
  return parts;
}

const remove = (path) => make("button", { onclick: () => desk.edit([{ path, value: null }], told()) }, say("formulas.remove"));

function model(source, path) {
  const put = (key, value) => desk.edit([{ path: [...path, key], value }], told());
  return make("section", { class: "card", "aria-label": source.onnx }, make("h3", {}, say("sources.model"), " ", source.onnx), make("div", { class: "fields" },
    field(say("sources.file"), choose([...new Set([...desk.now.models, String(source.onnx)])], String(source.onnx), (v) => put("onnx", v))),
    field(say("sources.soft"), choose([["yes", say("yes")], ["no", say("no")]], source.soft ? "yes" : "no", (v) => put("soft", v === "yes"))),
    field(say("sources.gives"), choose(["probabilities", "logits"], source.gives || "probabilities", (v) => put("gives", v)))), make("p", {}, remove(path)));
}

// a kind that has no form here: what it is, and a way to be rid of it
function unknown(source, path) {
  const name = Object.entries(source).map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join(", ");
  return make("section", { class: "card", "aria-label": say("sources.other") }, make("h3", {}, say("sources.other")), make("p", { class: "formula" }, name || "{}"), make("p", {}, remove(path)));
}

// a new calibrated range, or the one that is there with another share
function calibrate(old, path) {
  const values = old?.thresholds ?? [], alpha = make("input", { value: old ? shown(100 * old.alpha, 4) : "5", inputMode: "decimal" });
  const each = choose([["no", say("no")], ["yes", say("yes")]], new Set(values).size > 1 ? "yes" : "no", () => {});
  const begin = () => {
    const share = Number(alpha.value.replace(",", ".")) / 100;
    alpha.classList.toggle("wrong", !(share > 0 && share < 1));
    if (share > 0 && share < 1) desk.change("/api/calibrate", { alpha: share, per_class: each.value === "yes" });
  };
  const title = say(old ? "sources.calibrated" : "sources.calibrate");
  return make("section", { class: "card", "aria-label": title }, make("h3", {}, title),
    old ? make("p", {}, say("sources.calibrated.long", { level: shown(100 * (1 - old.alpha), 4), rows: old.rows ?? 0 })) : "",
    make("p", { class: "soft" }, say("sources.calibrate.help")),
    make("div", { class: "fields" }, field(say("sources.alpha"), alpha), desk.now.schema?.number ? null : field(say("sources.each"), each)),
    make("p", { class: "line" }, desk.now.data ? make("button", { id: "calibrate", onclick: begin }, say(old ? "sources.again" : "sources.measure")) : "", old ? remove(path) : ""));
}
