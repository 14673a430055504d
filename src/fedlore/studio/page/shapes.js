// Shapes: what more of a feature can never do, each beside what the site's rows show of it.

import { ask } from "./ask.js";
import { desk } from "./desk.js";
import { formulaBox } from "./formulabox.js";
import { choose, draw, field, make } from "./make.js";
import { say, shown } from "./words.js";

const what = () => say("shapes.title");

export function shapeForms() {
  const numbers = (desk.now.schema?.features || []).filter((f) => !f.levels.length).map((f) => f.name), { shapes } = desk.now;
  const taken = new Set(shapes.map((s) => s.feature)), next = numbers.find((name) => !taken.has(name)) || numbers[0];
  return [make("h2", {}, say("shapes.title")), make("p", { class: "soft" }, say("shapes.help")),
    ...shapes.map((shape, place) => card(shape, ["shape", "sources", place], numbers)),
    next ? make("p", {}, make("button", { id: "add-shape", onclick: () => desk.edit([{ path: ["shape", "sources", shapes.length], value: { feature: next, effect: "raises" } }], what()) }, say("shapes.add"))) : ""];
}

const EFFECTS = ["raises", "lowers", "arch", "valley"], BENDS = ["concave", "convex"], turning = (effect) => effect === "arch" || effect === "valley";
const ends = (at) => (at === undefined || at === null ? [] : [at].flat());

// a number, or the two ends of an interval in any writing; what is neither is left for the checks to name
function readTurns(text) {
  const parts = text.trim().split(/[\s,;[\]]+|\bto\b|至/).filter(Boolean).map(Number);
  return !text.trim() ? null : parts.length && !parts.some(Number.isNaN) ? (parts.length === 1 ? parts[0] : parts) : text;
}

function card(shape, path, numbers) {
  const put = (key, value) => desk.edit([{ path: [...path, key], value }], what());
  const turn = (effect) => desk.edit([{ path: [...path, "effect"], value: effect }, ...(turning(effect) || shape.turns_at === undefined ? [] : [{ path: [...path, "turns_at"], value: null }])], what());
  const turns = make("input", { value: ends(shape.turns_at).join(", "), onchange: () => { const at = readTurns(turns.value); if (at !== null || shape.turns_at !== undefined) put("turns_at", at); } });
  const known = [...new Set([...numbers, shape.feature])], seen = make("div", { class: "trust", "aria-live": "polite" });
  if (desk.now.data) show(shape, seen);
  return make("section", { class: "card", "aria-label": say("shapes.one", { feature: shape.feature }) }, make("h3", {}, say("shapes.one", { feature: shape.feature })),
    make("div", { class: "fields" }, field(say("shapes.feature"), choose(known, shape.feature, (v) => put("feature", v))),
      field(say("shapes.effect"), choose((desk.now.schema?.number || BENDS.includes(shape.effect) ? [...EFFECTS, ...BENDS] : EFFECTS).map((v) => [v, say("shapes." + v)]), shape.effect, turn)),
      turning(shape.effect) ? field(say("shapes.turns"), turns, say("shapes.turns.help")) : ""),
    BENDS.includes(shape.effect) && !shape.where ? "" : formulaBox(say("shapes.where"), shape.where ?? "", (value) => put("where", value), true), seen,
    make("p", {}, make("button", { onclick: () => desk.edit([{ path, value: null }], what()) }, say("formulas.remove"))));
}

async function show(shape, seen) {
  const said = await ask("/api/effect", { feature: shape.feature, where: shape.where ?? "", effect: shape.effect, turns_at: shape.turns_at ?? null }).catch((error) => ({ fault: error.message || say("away") }));
  seen.replaceChildren(...(said.fault ? [make("p", { class: "soft" }, said.fault)] : said.points.length < 2 ? [make("p", { class: "soft" }, say("shapes.few", { rows: said.rows }))] : drawEffect(said, shape)));
}

const WIDE = 560, TALL = 150, LEFT = 96, BOTTOM = 26;

// means of the label in groups of rows, with their intervals, and what a linear fit says besides
function drawEffect(said, shape) {
  const { points, classes } = said, x0 = points[0].at, x1 = points.at(-1).at;
  const low = Math.min(...points.map((p) => p.low)), high = Math.max(...points.map((p) => p.high));
  const x = (v) => LEFT + (WIDE - LEFT - 12) * (v - x0) / (x1 - x0 || 1), y = (v) => 8 + (TALL - BOTTOM - 8) * (1 - (v - low) / (high - low || 1));
  const name = (v) => (classes.length ? classes[Math.max(0, Math.min(classes.length - 1, Math.round(v)))] : shown(v, 3));
  const known = said.fits.filter((f) => f.slope !== null);
  const against = known.some((f) => f.slope * f.sign < -3 * f.error);
  const kinds = BENDS.includes(shape.effect) ? ["shapes.up", "shapes.down"] : ["shapes.rises", "shapes.falls"];
  const fit = (f) => (f.side ? `${shape.feature} ${f.side} ${shown(f.turn, 4)}: ` : "") + say(kinds[Number(f.slope <= 0)], { slope: shown(Math.abs(f.slope), 2), error: shown(f.error, 2) })
    + (f.slope * f.sign < -3 * f.error ? ` ${say("shapes.against")}` : "");
  const sentence = [say("shapes.seen", { rows: said.rows, groups: points.length }), ...known.map(fit)].join(" ");
  const svg = draw("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, class: "plot", role: "img", "aria-label": say("shapes.curve", { feature: shape.feature }) },
    draw("polygon", { points: [...points.map((p) => `${x(p.at)},${y(p.high)}`), ...[...points].reverse().map((p) => `${x(p.at)},${y(p.low)}`)].join(" "), class: "band" }),
    draw("polyline", { points: points.map((p) => `${x(p.at)},${y(p.mean)}`).join(" "), class: "curve" }),
    draw("line", { x1: LEFT, x2: WIDE - 12, y1: TALL - BOTTOM, y2: TALL - BOTTOM, class: "thin" }),
    ...said.fits.filter((f) => f.side).map((f) => f.turn).filter((v) => v >= x0 && v <= x1).map((v) => draw("line", { x1: x(v), x2: x(v), y1: 8, y2: TALL - BOTTOM, class: "thin turn" })),
    ...[x0, (x0 + x1) / 2, x1].map((v, i) => draw("text", { x: x(v), y: TALL - 8, "text-anchor": ["start", "middle", "end"][i] }, shown(v, 4))),
    ...[low, high].map((v) => draw("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, name(v))));
  return [svg, make("p", { class: against ? "warn" : "soft" }, sentence)];
}
