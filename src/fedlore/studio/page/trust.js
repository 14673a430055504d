// The score of the site's model over λ, as a line; what is now is marked.

import { draw, make } from "./make.js";
import { say, shown } from "./words.js";

const WIDE = 560, TALL = 160, LEFT = 56, BOTTOM = 26;

export function drawTrust(said) {
  const low = Math.min(...said.scores), high = Math.max(...said.scores), room = (high - low || Math.abs(high) || 1) * 0.1;
  const x = (trust) => LEFT + (WIDE - LEFT - 10) * trust, y = (score) => 8 + (TALL - BOTTOM - 8) * (1 - (score - low + room) / (high - low + 2 * room));
  const words = (score) => (said.score === "accuracy" ? `${shown(100 * score, 4)} %` : shown(score, 4));
  const best = said.scores[said.trust.indexOf(said.best)], sentence = say("trust." + said.score, { best: shown(said.best, 2), score: words(best), now: shown(said.now, 3) });
  const svg = draw("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, class: "plot", role: "img", "aria-label": sentence },
    draw("polyline", { points: said.trust.map((t, i) => `${x(t)},${y(said.scores[i])}`).join(" "), class: "curve" }),
    draw("line", { x1: x(said.now), x2: x(said.now), y1: 4, y2: TALL - BOTTOM, class: "here" }),
    draw("line", { x1: LEFT, x2: WIDE - 10, y1: TALL - BOTTOM, y2: TALL - BOTTOM, class: "thin" }),
    ...[0, 0.25, 0.5, 0.75, 1].map((t) => draw("text", { x: x(t), y: TALL - 8, "text-anchor": "middle" }, shown(t, 3))),
    ...[...new Set([low, high])].map((v) => draw("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, words(v))));
  return make("div", { class: "trust" }, svg, make("p", {}, sentence));
}
