
"use strict";
// Everything that comes from the service or from a person is set as text, never as HTML.
const at = (id) => document.getElementById(id);
const TEXTS = /*texts*/{};  // by language: its words for what this page says in English
let form = null;      // what a row must have
let token = "";       // held in this page only

const wanted = new URLSearchParams(location.search).get("lang") || navigator.language;
const language = wanted.slice(0, 2) in TEXTS ? wanted.slice(0, 2) : "en";

// the page is written in English; another language has its own words for each text
function say(text, values = {}) {
  const found = (TEXTS[language] || {})[text] ?? text;
  return found.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

function translate() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : language;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    if (text && walker.currentNode.parentNode.tagName !== "SCRIPT") {
      walker.currentNode.data = walker.currentNode.data.replace(text, () => say(text));
    }
  }
  at("paste").placeholder = say(at("paste").placeholder.replace(/\s+/g, " "));
  for (const one of document.querySelectorAll("[aria-label]")) {
    one.setAttribute("aria-label", say(one.getAttribute("aria-label")));
  }
  at("languages").append(...Object.keys(TEXTS).filter((tag) => tag !== language).map((tag) => {
    const link = make("a", new Intl.DisplayNames([tag], { type: "language" }).of(tag));
    link.href = "?lang=" + tag;
    link.lang = tag;
    return link;
  }));
}

function make(kind, text, name) {
  const one = document.createElement(kind);
  if (text !== undefined) one.textContent = text;
  if (name) one.className = name;
  return one;
}

async function ask(path, body) {
  const headers = { "Accept-Language": language, ...(token ? { Authorization: "Bearer " + token } : {}) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const method = body === undefined ? "GET" : "POST";
  const answer = await fetch(path, { method, headers, body });
  const said = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.error), said, { status: answer.status });
  return said;
}

function span(feature) {
  const low = feature.low ?? "", high = feature.high ?? "";
  return low === "" && high === "" ? "" : say("{low} to {high}", { low, high });
}

function build() {
  document.title = `${form.client}: ${form.label}`;
  at("title").textContent = say(form.target ? "{site}: how much {label}?" : "{site}: which {label}?",
    { site: form.client, label: form.label });
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
    field.addEventListener("input", () => { look(feature, field); follow(); });
    box.append(label, field, ...slider(feature, field), make("small", span(feature)));
    fields.append(box);
  }
  at("chances").textContent = form.target ? say("Where it lies") : say("Probabilities");
  at("door").hidden = true;
  at("main").hidden = false;
}

// beside a number with a scope: a value that a person can move, and the answer follows
function slider(feature, field) {
  if (feature.levels.length || feature.low === null || feature.high === null) return [];
  const bar = make("input"), step = 10 ** Math.floor(Math.log10((feature.high - feature.low) / 200));
  Object.assign(bar, { type: "range", min: feature.low, max: feature.high, step: "any", id: "s-" + feature.name });
  bar.value = (feature.low + feature.high) / 2;
  bar.className = "unset";  // pale until there is a number
  bar.setAttribute("aria-label", feature.column || feature.name);
  bar.addEventListener("input", () => {
    const near = Math.round(Number(bar.value) / step) * step;
    field.value = short(Math.min(Math.max(near, feature.low), feature.high));
    field.classList.remove("wrong", "off");
    bar.classList.remove("unset");
    follow();
  });
  bar.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    bar.value = Number(bar.value) + way * step;
    bar.dispatchEvent(new Event("input"));
  });
  return [bar];
}

// the number a person meant: 10.5 and 10,5 are the same
function number(text) {
  const plain = text.trim().replace(",", ".");
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : null;
}

function look(feature, field) {
  field.classList.remove("wrong", "off");
  const value = number(field.value), bar = at("s-" + feature.name);
  if (bar) bar.classList.toggle("unset", value === null);
  if (feature.levels.length || !field.value.trim()) return;
  if (bar && value !== null) bar.value = value;
  if (value === null) field.classList.add("wrong");
  else if ((feature.low !== null && value < feature.low) ||
           (feature.high !== null && value > feature.high)) field.classList.add("off");
}

function cells(line, apart) {
  return line.split(apart).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
}

// the feature behind a title, which may carry a unit or be the one of the data files
function featureOf(title) {
  const plain = title.replace(/\s*(\[.*\]|\(.*\))$/, "");
  const own = (key) => form.features.find((f) => [title, plain].includes(f[key]));
  return (own("name") || own("column") || { name: plain }).name;
}

// tabs come from spreadsheets; commas separate only where nothing else does
function fillFields() {
  const lines = at("paste").value.split(/\r?\n/).filter((line) => line.trim());
  if (!lines.length) return;
  const text = lines.join("");
  const apart = text.includes("\t") ? "\t" : text.includes(";") ? ";" : ",";
  const first = cells(lines[0], apart), names = form.features.map((f) => f.name);
  const bare = first.map(featureOf);
  const named = names.some((name) => bare.includes(name));
  const values = named ? (lines[1] ? cells(lines[1], apart) : []) : first;
  if (named && !values.length) return;  // the values are still to come
  if (!named && values.length < names.length) {
    complain(say("The row has {count} values, {needed} are needed: {names}",
      { count: values.length, needed: names.length, names: names.join(", ") }));
    return;
  }
  complain("");
  form.features.forEach((feature, i) => {
    const place = named ? bare.indexOf(feature.name) : i;
    const field = at("f-" + feature.name);
    field.value = place < 0 ? "" : values[place] ?? "";
    look(feature, field);
  });
  follow();
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
      throw Object.assign(new Error(say("{name} is missing", { name: feature.name })),
        { column: feature.name });
    }
    const value = feature.levels.length ? text : number(text);
    if (value === null) {
      throw Object.assign(new Error(say("{name} is not a number: {text}", { name: feature.name, text })),
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
  model: "The model decided.",
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
  title.textContent = say("{predicted} {unit}, with 90 % from {first} to {last}; allowed from {low} to {high}", {
    predicted: short(answer.predicted), unit, first: short(first), last: short(last),
    low: short(answer.low), high: short(answer.high) });
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
    at("held").textContent = number
      ? say("{low} to {high}", { low: short(answer.held[0]), high: short(answer.held[1]) })
      : answer.held.join(", ");
    at("promise").textContent = sentence(form.promise);
  }
  at("doubting").hidden = answer.noise === null;
  if (answer.noise === null) return;
  at("doubt").textContent = say(
    "One test differs from its mean by {noise} {unit} (sd), the model's mean from the true one by {ignorance}.",
    { noise: threeDigits(answer.noise), unit: number ? form.target.unit : say("classes"), ignorance: threeDigits(answer.ignorance) });
  at("far").hidden = !answer.far;
  at("far").textContent = say("This row is unlike the training data: the model knows too little about such rows.");
}

function threeDigits(value) {
  return String(Number(value.toPrecision(3)));
}

function show(answer) {
  const number = form.task === "regression";
  complain("");
  at("hint").hidden = true;
  at("found").hidden = false;
  at("scope").hidden = answer.in_scope;
  at("scope").textContent = say(
    "Some values lie outside the scope that the expert declared: the rules were not made for them.");
  at("predicted").textContent =
    short(answer.predicted) + (number && form.target.unit ? ` ${form.target.unit}` : "");
  const expert = answer.expert === null
    ? say(answer.trust > 0 ? "The expert holds several answers equally likely." : "The expert is silent.")
    : say("The expert says {answer}.", { answer: short(answer.expert) });
  at("who").textContent = [say(WHO[answer.decided]), expert,
    say("Trust {trust}.", { trust: short(answer.trust) })].join(" ");
  const allowed = new Set(answer.allowed);
  if (number) {
    const [first, last] = answer.interval;
    at("allowed").replaceChildren(make("span", say("{low} to {high}; with 90 % from {first} to {last}", {
      low: short(answer.low), high: short(answer.high), first: short(first), last: short(last) })));
    at("bars").replaceChildren();
    at("axis").replaceChildren(axis(answer));
  } else {
    at("allowed").replaceChildren(...form.classes.map((name) => {
      const state = name === answer.predicted ? "is" : allowed.has(name) ? "may" : "no";
      const chip = make("span", name, "chip " + state);
      chip.title = say(allowed.has(name) ? "allowed" : "excluded by the range");
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

// One request at a time; while values change, what was answered before is taken away.
let running = false, again = false, quiet = 0;

function follow() {
  clearTimeout(quiet);
  at("found").classList.add("old");
  at("change").hidden = true;
  if (running) again = true;
  else answer(false);
}

async function answer(strict) {
  running = true;
  at("busy").textContent = say("asking …");
  do {
    again = false;
    try {
      const values = row(), said = await ask("/predict", JSON.stringify(values));
      if (again) continue;
      show(said.answers[0]);
      at("found").classList.remove("old");
      quiet = setTimeout(() => askChanges(values), 250);
    } catch (error) {
      if (again) continue;
      at("found").hidden = true;
      // what is still being typed is not complained of
      if (strict || error.status) complain(error.message || say("The service does not answer."), error.column);
      else { complain(""); at("hint").hidden = false; at("hint").textContent = error.message; }
    }
  } while (again);
  at("busy").textContent = "";
  running = false;
}

// the smallest change to another answer: asked once the values stand still
async function askChanges(values) {
  const said = await ask("/what-if", JSON.stringify(values)).catch(() => null);
  if (!said || JSON.stringify(values) !== JSON.stringify(row())) return;
  const [smallest, ...moved] = [...said.sentences].reverse();
  at("smallest").textContent = sentence(smallest);
  at("moved").textContent = moved.map(sentence).join(" ");
  at("changes").replaceChildren(...said.changes.slice(0, 4).map((one) => {
    const button = make("button", say("{input} {value}: {answer}",
      { input: one.input, value: short(one.value), answer: short(one.predicted) }));
    button.type = "button";
    button.addEventListener("click", () => {
      const feature = form.features.find((f) => f.name === one.input), field = at("f-" + one.input);
      field.value = one.value;
      look(feature, field);
      follow();
    });
    return button;
  }));
  at("change").hidden = false;
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.。]$/.test(text) ? "" : language === "zh" ? "。" : ".");

async function predict(event) {
  event.preventDefault();
  for (const field of document.querySelectorAll(".wrong")) field.classList.remove("wrong");
  if (running) again = true;
  else await answer(true);
  at("answer").scrollIntoView({ block: "nearest" });  // on a phone it lies below the fields
}

async function start() {
  try {
    form = await ask("/schema");
  } catch (error) {
    at("door").hidden = false;
    at("about").textContent = token ? say("This token is wrong.") : "";
    return;
  }
  build();
  if (form.monitored) {
    buildMonitor();
    showMonitor();
  }
  const card = await ask("/card");
  at("about").textContent = say("Model {model} of {day}. What is typed here is answered by this site's own service and goes nowhere else.",
    { model: card.fingerprint.slice(0, 12), day: card.created.slice(0, 10) });
}

translate();
at("row").addEventListener("submit", predict);
at("paste").addEventListener("input", fillFields);
at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  start();
});
fetch("/health").then((answer) => answer.json()).then((health) => {
  if (health.token) at("door").hidden = false;
  else start();
});
