// One colour per answer: a ramp where the classes rise, far apart where they do not.

const APART = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c8c8c", "#882255", "#44aa99"];
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];   // viridis

export function ramp(share) {
  const at = Math.max(0, Math.min(1, share)) * (RAMP.length - 1), i = Math.min(RAMP.length - 2, Math.floor(at));
  return `rgb(${RAMP[i].map((a, c) => Math.round(a + (at - i) * (RAMP[i + 1][c] - a))).join(" ")})`;
}

export function classColour(place, { classes, ordered }) {
  if (ordered || classes.length > APART.length) return ramp(classes.length < 2 ? 0 : place / (classes.length - 1));
  return APART[place];
}
