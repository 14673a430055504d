// Drawings of the answer: along one feature, and over two.

import { classColour, ramp } from "./colours.js";
import { draw, make } from "./make.js";
import { say, shown } from "./words.js";

const WIDE = 560, LEFT = 8, BAND = 16;

const across = (axis, left, right) => {
  if (axis.levels.length) return { from: (i) => left + (right - left) * i / axis.values.length, to: (i) => left + (right - left) * (i + 1) / axis.values.length,
    at: (v) => left + (right - left) * (v + 0.5) / axis.values.length };
  const low = axis.edges[0], high = axis.edges.at(-1), place = (v) => left + (right - left) * (v - low) / (high - low);
  return { from: (i) => place(axis.edges[i]), to: (i) => place(axis.edges[i + 1]), at: place };
};

function ticks(axis) {
  if (axis.levels.length) return axis.levels.map((text, i) => [i, text]);
  const low = axis.edges[0], high = axis.edges.at(-1), step = nice((high - low) / 5), found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step / 1e6; v += step) found.push([v, shown(Number(v.toPrecision(10)), 5)]);
  return found;
}

function nice(step) {
  const power = 10 ** Math.floor(Math.log10(step)), share = step / power;
  return power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
}

// one strip: the range as a band of allowed classes, the expert's word on it
export function drawCurve(said, schema, onchoose) {
  const { axis } = said, scale = across(axis, LEFT, WIDE - LEFT);
  const number = schema.number, tall = number ? 110 : Math.max(34, Math.min(120, schema.classes.length * BAND));
  const svg = draw("svg", { viewBox: `0 0 ${WIDE} ${tall + 24}`, class: "plot", role: "img", "aria-label": say("curve.label", { name: axis.name }) });
  const high = number ? measure(said) : null;
  const y = (i) => tall - tall * (i + 1) / schema.classes.length;
  const band = (from, to, top, height, name) => svg.append(draw("rect", { x: scale.from(from), y: top, width: scale.to(to) - scale.from(from), height, class: name }));
  const each = tall / schema.classes.length;
  for (const [from, to] of runs(said.refused.map(String), "true")) band(from, to, 0, tall, "clash");
  if (number) {
    axis.values.forEach((_, i) => {
      if (said.refused[i]) return;
      band(i, i, high(said.high[i], tall), Math.max(1, high(said.low[i], tall) - high(said.high[i], tall)), "band");
      if (said.expert[i] !== null) band(i, i, high(said.expert[i], tall) - 1.5, 3, "said");
    });
  } else {
    schema.classes.forEach((_, c) => {
      for (const [from, to] of runs(said.allowed.map((may, i) => (said.refused[i] ? "" : may[c])), "1")) band(from, to, y(c), each, "band");
      for (const [from, to] of runs(said.favoured.map((bits) => bits[c]), "1")) band(from, to, y(c), each, "said");
      for (const [from, to] of runs(said.forbidden.map((text) => String(text.split(", ").includes(schema.classes[c]))), "true")) band(from, to, y(c), each, "clash");
    });
  }
  svg.append(draw("line", { x1: LEFT, x2: WIDE - LEFT, y1: tall, y2: tall, class: "thin" }));
  for (const [v, text] of ticks(axis)) svg.append(draw("text", { x: scale.at(v), y: tall + 16, "text-anchor": "middle" }, text));
  const here = axis.levels.length ? axis.levels.indexOf(said.level) : said.at;
  if (here !== null && here >= -1e300) svg.append(draw("line", { x1: scale.at(here), x2: scale.at(here), y1: 0, y2: tall, class: "here" }));
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * WIDE;
    const i = axis.values.findIndex((_, j) => x >= scale.from(j) && x <= scale.to(j));
    if (i >= 0) onchoose(axis.levels.length ? axis.levels[i] : Number(axis.values[i].toPrecision(6)));
  });
  return svg;
}

// from where to where a word stands without a break
function runs(words, wanted) {
  const found = [];
  words.forEach((word, i) => {
    if (word !== wanted) return;
    if (found.length && found.at(-1)[1] === i - 1) found.at(-1)[1] = i; else found.push([i, i]);
  });
  return found;
}

function measure(said) {
  const all = [...said.low, ...said.high, ...said.expert].filter((v) => v !== null);
  const low = Math.min(...all), high = Math.max(...all);
  return (v, tall) => tall - tall * (v - low) / (high - low || 1);
}

// a map of two features: holes are left blank, what the range forbids the expert and rules that contradict each other are hatched
export function drawMap(said, schema, onchoose) {
  const tall = 380, left = 56, bottom = 34;
  const x = across(said.across, left, WIDE - LEFT), up = across(said.up, tall - bottom, 24);
  const count = said.across.values.length;
  const svg = draw("svg", { viewBox: `0 0 ${WIDE} ${tall}`, class: "plot", role: "img", "aria-label": say("map.label", { a: said.across.name, b: said.up.name }) });
  svg.append(draw("defs", {}, draw("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    draw("rect", { width: 6, height: 6, class: "clash", opacity: 0.35 }), draw("rect", { width: 3, height: 6, class: "clash" }))));
  const keys = said.refused.map((_, n) => answerKey(said, n, schema)), seen = new Map(keys.map((key) => [key.name, key]));
  for (const key of seen.values()) if (key.stripes) svg.firstChild.append(striped(key));
  said.up.values.forEach((_, j) => {
    const names = keys.slice(j * count, (j + 1) * count).map((key) => key.name), top = Math.min(up.from(j), up.to(j));
    for (const [name, key] of seen) {
      for (const [from, to] of runs(names, name)) {
        svg.append(draw("rect", { x: x.from(from), y: top, width: x.to(to) - x.from(from), height: Math.abs(up.to(j) - up.from(j)), fill: key.fill, opacity: key.faint ? 0.45 : 1 }));
      }
    }
  });
  for (const [v, text] of ticks(said.across)) svg.append(draw("text", { x: x.at(v), y: tall - 16, "text-anchor": "middle" }, text));
  for (const [v, text] of ticks(said.up)) svg.append(draw("text", { x: left - 6, y: up.at(v) + 4, "text-anchor": "end" }, text));
  svg.append(draw("text", { x: WIDE - LEFT, y: tall - 2, "text-anchor": "end" }, named(said.across)), draw("text", { x: 2, y: 14 }, named(said.up)));
  const [a, b] = ["across", "up"].map((side, i) => (said[side].levels.length ? said[side].levels.indexOf(said.level[i]) : said.at[i]));
  if (a !== null && b !== null) svg.append(draw("circle", { cx: x.at(a), cy: up.at(b), r: 6, class: "here", fill: "none" }));
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect(), px = (event.clientX - box.left) / box.width * WIDE, py = (event.clientY - box.top) / box.height * tall;
    const i = said.across.values.findIndex((_, k) => px >= x.from(k) && px <= x.to(k));
    const j = said.up.values.findIndex((_, k) => py <= Math.max(up.from(k), up.to(k)) && py >= Math.min(up.from(k), up.to(k)));
    if (i >= 0 && j >= 0) onchoose(value(said.across, i), value(said.up, j));
  });
  return make("div", {}, svg, legend([...seen.values()]));
}

const value = (axis, i) => (axis.levels.length ? axis.levels[i] : Number(axis.values[i].toPrecision(6)));
const named = (axis) => (axis.unit ? `${axis.name} [${axis.unit}]` : axis.name);

// how a place of the map is coloured, and what the legend calls it
function answerKey(said, n, schema) {
  if (said.refused[n]) return { name: say("map.clash"), fill: "url(#hatch)", order: 900 };
  if (said.forbidden[n]) return { name: say(schema.number ? "map.forbidden.number" : "map.forbidden", { said: said.forbidden[n] }), fill: "url(#hatch)", order: 899 };
  if (schema.number) {
    const all = said.expert.filter((v) => v !== null), low = Math.min(...all), high = Math.max(...all), v = said.expert[n];
    if (v === null) return { name: say("map.hole"), fill: "transparent", order: 901 };
    const part = Math.round(8 * (v - low) / (high - low || 1)) / 8;
    return { name: `≈ ${shown(low + part * (high - low), 4)}`, fill: ramp(part), order: part };
  }
  const favoured = places(said.favoured[n]), may = places(said.allowed[n]), colours = (some) => some.map((place) => classColour(place, schema));
  const names = (some) => some.map((place) => schema.classes[place]);
  if (favoured.length === 1) return { name: names(favoured)[0], fill: colours(favoured)[0], order: favoured[0] };
  if (favoured.length) return stripes(names(favoured).join(` ${say("or")} `), colours(favoured), { order: 300 + favoured[0] });
  if (may.length === schema.classes.length) return { name: say("map.hole"), fill: "transparent", order: 901 };
  const whole = may.length > 2 && may.at(-1) - may[0] + 1 === may.length;
  const text = whole ? `${names(may)[0]}..${names(may).at(-1)}` : names(may).join(", ");
  return stripes(say("map.only", { names: text }), colours(may), { faint: true, order: 500 + may[0] });
}

const places = (bits) => [...bits].flatMap((bit, i) => (bit === "1" ? [i] : []));

// several classes have one colour each, so that no two sets look alike
function stripes(name, colours, rest) {
  if (colours.length === 1) return { name, fill: colours[0], ...rest };
  const id = `stripes-${colours.join().replace(/[^0-9a-z]+/gi, "-")}`;
  return { name, fill: `url(#${id})`, stripes: { id, colours }, ...rest };
}

function striped({ stripes: { id, colours } }) {
  const wide = 4 * colours.length;
  return draw("pattern", { id, width: wide, height: wide, patternUnits: "userSpaceOnUse", patternTransform: "rotate(30)" },
    colours.map((fill, i) => draw("rect", { x: 4 * i, width: 4, height: wide, fill })));
}

function legend(keys) {
  return make("div", { class: "legend" }, keys.sort((a, b) => a.order - b.order).slice(0, 24).map((key) => make("span", {},
    draw("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, draw("rect", { width: 10, height: 10, fill: key.fill, opacity: key.faint ? 0.45 : 1 })), key.name)));
}
