// What the columns of a table are, and what their cells may say.

import { say, shown } from "./words.js";

export const titleOf = (feature) => (feature.unit ? `${feature.name} [${feature.unit}]` : feature.name);

const OUTCOMES = ["then", "outcome", "range"];

// the feature behind a title: by its name, or by its title in the data
export function featureOf(title, schema) {
  const text = title.trim(), bare = text.replace(/\s*[[(][^[\]()]*[\])]$/, "");
  return [text, bare].map((one) => schema.features.find((f) => f.column?.trim() === one || f.name === one)).find(Boolean);
}

export const nameOf = (title) => title.split("[")[0].trim();

const about = (feature) => ({ title: feature.name, unit: [feature.unit, feature.column].filter(Boolean).join(" · ") });

export const EXTRAS = ["priority", "confidence", "rule", "note"];

export function columnsOf(sheet, grid, schema) {
  return sheet.header.map((title, place) => {
    const word = nameOf(title).toLowerCase(), feature = featureOf(title, schema);
    const own = () => [...new Set(sheet.rows.map((row) => row[place]).filter(Boolean))].slice(0, 12);
    const then = grid.outcome ? title === grid.outcome : !feature && OUTCOMES.includes(word);
    if (then) return { title, role: "then", hint: say("cell.then"), offers: () => outcomes(grid, schema, own) };
    if (feature?.levels.length) {
      return { ...about(feature), role: "feature", hint: say("cell.levels", { levels: feature.levels.join(", ") }),
        offers: () => [...new Set([...feature.levels, ...feature.levels.map((l) => `not ${l}`), ...own()])] };
    }
    if (feature) {
      return { ...about(feature), role: "feature", number: true, hint: say("cell.number", { scope: scope(feature) }), offers: own };
    }
    return { title, role: "extra", hint: word === "confidence" ? say("confidence.hint") : "", number: word === "priority", offers: word === "priority" ? () => [] : own };
  });
}

export function exampleColumns(sheet, schema) {
  return sheet.header.map((title) => {
    const bare = nameOf(title), feature = featureOf(title, schema);
    if (feature) return { ...about(feature), role: "feature", number: !feature.levels.length, hint: scope(feature), offers: () => feature.levels };
    if (bare === "expect") return { title, role: "then", hint: say("examples.expect"), number: schema.number, offers: () => [...schema.classes, "silent"] };
    if (bare === "allowed") return { title, role: "then", hint: say("examples.allowed"), number: schema.number, offers: () => outcomes({ side: "range" }, schema, () => []) };
    return { title, role: "extra", hint: "", offers: () => [] };
  });
}

function outcomes(grid, schema, own) {
  if (schema.number) return own();
  const { classes } = schema;
  if (grid.side === "predict") return classes;
  const spans = classes.length <= 8 ? classes.flatMap((a, i) => classes.slice(i + 1).map((b) => `${a}..${b}`)) : [];
  return [...new Set([...own(), ...classes, ...spans, "all"])];
}

export function scope({ low, high, unit }) {
  const ends = low === null && high === null ? say("scope.none") : `${shown(low)} … ${shown(high)}`;
  return unit ? `${ends} ${unit}` : ends;
}
