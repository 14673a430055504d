
"use strict";
// Everything that comes from the service or from a person is set as text, never as HTML.
const at = (id) => document.getElementById(id);
let form = null;      // what a row must have
let token = "";       // held in this page only

function make(kind, text, name) {
  const one = document.createElement(kind);
  if (text !== undefined) one.textContent = text;
  if (name) one.className = name;
  return one;
}

async function ask(path, body) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const method = body === undefined ? "GET" : "POST";
  const answer = await fetch(path, { method, headers, body });
  const said = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.error), said, { status: answer.status });
  return said;
}

function span(feature) {
  const low = feature.low ?? "", high = feature.high ?? "";
  return low === "" && high === "" ? "" : `${low} to ${high}`;
}

function build() {
  document.title = `${form.client}: ${form.label}`;
  at("title").textContent =
    `${form.client}: ${form.target ? "how much" : "which"} ${form.label}?`;
  at("label").textContent = form.label;
  const fields = at("fields");
  for (const feature of form.features) {
    const box = make("div"), label = make("label", feature.column || feature.name);
    if (feature.unit) label.append(make("span", ` ${feature.unit}`, "soft"));
    label.htmlFor = "f-" + feature.name;
    const field = make(feature.levels.length ? "select" : "input");
    if (feature.levels.length) {
      for (const level of ["", ...feature.levels]) field.append(make("option", level));
    } else {
      field.inputMode = "decimal";
      field.autocomplete = "off";
    }
    field.id = "f-" + feature.name;
    field.addEventListener("input", () => look(feature, field));
    box.append(label, field, make("small", span(feature)));
    fields.append(box);
  }
  at("chances").textContent = form.target ? "Where it lies" : "Probabilities";
  at("door").hidden = true;
  at("main").hidden = false;
}

// the number a person meant: 10.5 and 10,5 are the same
function number(text) {
  const plain = text.trim().replace(",", ".");
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : null;
}

function look(feature, field) {
  field.classList.remove("wrong", "off");
  if (feature.levels.length || !field.value.trim()) return;
  const value = number(field.value);
  if (value === null) field.classList.add("wrong");
  else if ((feature.low !== null && value < feature.low) ||
           (feature.high !== null && value > feature.high)) field.classList.add("off");
}

function cells(line, apart) {
  return line.split(apart).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
}

// the feature behind a title, which may carry a unit or be the one of the data files
function called(title) {
  const plain = title.replace(/\s*(\[.*\]|\(.*\))$/, "");
  const own = (key) => form.features.find((f) => [title, plain].includes(f[key]));
  return (own("name") || own("column") || { name: plain }).name;
}

// tabs come from spreadsheets; commas separate only where nothing else does
function spread() {
  const lines = at("paste").value.split(/\r?\n/).filter((line) => line.trim());
  if (!lines.length) return;
  const text = lines.join("");
  const apart = text.includes("\t") ? "\t" : text.includes(";") ? ";" : ",";
  const first = cells(lines[0], apart), names = form.features.map((f) => f.name);
  const bare = first.map(called);
  const named = names.some((name) => bare.includes(name));
  const values = named ? (lines[1] ? cells(lines[1], apart) : []) : first;
  if (named && !values.length) return;  // the values are still to come
  if (!named && values.length < names.length) {
    complain(`The row has ${values.length} values, ${names.length} are needed: ` +
      names.join(", "));
    return;
  }
  complain("");
  form.features.forEach((feature, i) => {
    const place = named ? bare.indexOf(feature.name) : i;
    const field = at("f-" + feature.name);
    field.value = place < 0 ? "" : values[place] ?? "";
    look(feature, field);
  });
}

function complain(text, column) {
  at("problem").hidden = !text;
  at("problem").textContent = text;
  if (text) { at("found").hidden = true; at("hint").hidden = true; }
  const field = column ? at("f-" + column) : null;
  if (field) { field.classList.add("wrong"); field.focus(); }
}

function row() {
  const found = {};
  for (const feature of form.features) {
    const field = at("f-" + feature.name), text = field.value.trim();
    if (!text) {
      if (feature.missing) { found[feature.name] = null; continue; }
      throw Object.assign(new Error(`${feature.name} is missing`), { column: feature.name });
    }
    const value = feature.levels.length ? text : number(text);
    if (value === null) {
      throw Object.assign(new Error(`${feature.name} is not a number: ${text}`),
        { column: feature.name });
    }
    found[feature.name] = value;
  }
  return found;
}

function percent(p) {
  return p === 0 ? "0" : p < 0.001 ? "< 0.1 %" : (100 * p).toFixed(1) + " %";
}

const WHO = {
  range: "The range leaves nothing else.",
  expert: "The expert decided.",
  network: "The model decided.",
  both: "Expert and model together.",
};

function short(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(6))) : value;
}

// one axis from bound to bound: what the range allows, the 90 % interval, the expert, the number
function axis(answer) {
  const { lower, upper, unit } = form.target, space = "http://www.w3.org/2000/svg";
  const at = (v) => 10 + 380 * (v - lower) / (upper - lower);
  const draw = (kind, about, name) => {
    const one = document.createElementNS(space, kind);
    for (const [key, value] of Object.entries(about)) one.setAttribute(key, value);
    if (name) one.setAttribute("class", name);
    return one;
  };
  const band = (from, to, y, height, name) =>
    draw("rect", { x: at(from), y, width: Math.max(at(to) - at(from), 1), height }, name);
  const text = (v, y, said, anchor) => {
    const one = draw("text", { x: at(v), y, "text-anchor": anchor });
    one.textContent = said;
    return one;
  };
  const svg = draw("svg", { viewBox: "0 0 400 74", role: "img" }, "axis");
  const [first, last] = answer.interval;
  const title = draw("title", {});
  title.textContent = `${short(answer.predicted)} ${unit}, with 90 % from ${short(first)} to ` +
    `${short(last)}; allowed from ${short(answer.low)} to ${short(answer.high)}`;
  svg.append(title, draw("line", { x1: 10, x2: 390, y1: 38, y2: 38 }, "line"),
    band(answer.low, answer.high, 28, 20, "allowed"), band(first, last, 33, 10, "interval"));
  if (answer.expert !== null) {
    svg.append(draw("line", { x1: at(answer.expert), x2: at(answer.expert), y1: 26, y2: 50 }, "expert"));
  }
  svg.append(draw("circle", { cx: at(answer.predicted), cy: 38, r: 6 }, "number"),
    text(answer.predicted, 16, short(answer.predicted), "middle"),
    text(lower, 66, short(lower), "start"), text(upper, 66, `${short(upper)} ${unit}`, "end"));
  return svg;
}

// what holds for a share of new rows, and what of the doubt is noise and what ignorance
function hold(answer, number) {
  at("holding").hidden = answer.held === null;
  if (answer.held !== null) {
    at("held").textContent = number ? `${short(answer.held[0])} to ${short(answer.held[1])}`
      : answer.held.join(", ");
    at("promise").textContent = form.promise + ".";
  }
  at("doubting").hidden = answer.noise === null;
  if (answer.noise === null) return;
  const unit = number ? form.target.unit : "classes";
  at("doubt").textContent =
    `One test differs from its mean by ${short3(answer.noise)} ${unit} (sd), the model's mean ` +
    `from the true one by ${short3(answer.ignorance)}.`;
  at("far").hidden = !answer.far;
  at("far").textContent = "This row is unlike all that was learned from: more is unknown than noise.";
}

function short3(value) {
  return String(Number(value.toPrecision(3)));
}

function show(answer) {
  const number = form.task === "regression";
  complain("");
  at("hint").hidden = true;
  at("found").hidden = false;
  at("scope").hidden = answer.in_scope;
  at("scope").textContent =
    "Some values lie outside the scope that the expert declared: the rules were not made for them.";
  at("predicted").textContent =
    short(answer.predicted) + (number && form.target.unit ? ` ${form.target.unit}` : "");
  const expert = answer.expert === null
    ? answer.trust > 0 ? "The expert holds several answers equally likely." : "The expert is silent."
    : `The expert says ${short(answer.expert)}.`;
  at("who").textContent = `${WHO[answer.decided]} ${expert} Trust ${short(answer.trust)}.`;
  const allowed = new Set(answer.allowed);
  if (number) {
    const [first, last] = answer.interval;
    at("allowed").replaceChildren(make("span", `${short(answer.low)} to ${short(answer.high)}; ` +
      `with 90 % from ${short(first)} to ${short(last)}`));
    at("bars").replaceChildren();
    at("axis").replaceChildren(axis(answer));
  } else {
    at("allowed").replaceChildren(...form.classes.map((name) => {
      const state = name === answer.predicted ? "is" : allowed.has(name) ? "may" : "no";
      const chip = make("span", name, "chip " + state);
      chip.title = allowed.has(name) ? "allowed" : "excluded by the range";
      return chip;
    }));
  }
  const shown = number ? [] : form.classes.filter((name) => allowed.has(name));
  at("bars").replaceChildren(...shown.map((name) => {
    const line = make("tr"), bar = make("div", "", "bar"), cell = make("td");
    bar.append(make("div"));
    bar.firstChild.style.width = 100 * answer.probabilities[name] + "%";
    cell.append(bar);
    line.append(make("th", name), cell, make("td", percent(answer.probabilities[name])));
    return line;
  }));
  hold(answer, number);
  at("why").replaceChildren(...answer.reasons.map((text) => make("li", text)));
}

async function predict(event) {
  event.preventDefault();
  for (const field of document.querySelectorAll(".wrong")) field.classList.remove("wrong");
  at("busy").textContent = "asking …";
  try {
    show((await ask("/predict", JSON.stringify(row()))).answers[0]);
  } catch (error) {
    complain(error.message || "The service does not answer.", error.column);
  }
  at("busy").textContent = "";
  at("answer").scrollIntoView({ block: "nearest" });  // on a phone it lies below the fields
}

async function start() {
  try {
    form = await ask("/schema");
  } catch (error) {
    at("door").hidden = false;
    at("about").textContent = token ? "This token is not the one." : "";
    return;
  }
  build();
  if (form.monitored) {
    buildWatch();
    showWatch();
  }
  const card = await ask("/card");
  at("about").textContent = `Model ${card.fingerprint.slice(0, 12)} of ${card.created.slice(0, 10)}. ` +
    "What is typed here is answered by this site's own service and goes nowhere else.";
}

at("row").addEventListener("submit", predict);
at("paste").addEventListener("input", spread);
at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  start();
});
fetch("/health").then((answer) => answer.json()).then((health) => {
  if (health.token) at("door").hidden = false;
  else start();
});
