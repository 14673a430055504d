// What keys do in a grid: as in the spreadsheet programs that people know.

export function press(grid, event) {
  const { key, shiftKey: shift, altKey: alt } = event;
  const control = event.ctrlKey || event.metaKey;
  if (event.isComposing || key === "Process") {   // an input method writes into the cell itself
    if (!grid.editing) grid.edit("");
    return;
  }
  const done = grid.editing ? whileEditing(grid, key, shift, control) : whileMoving(grid, key, shift, control, alt);
  if (done) event.preventDefault();
}

function whileEditing(grid, key, shift, control) {
  const arrow = grid.editing.typed && (key === "ArrowUp" || key === "ArrowDown");
  if (key === "Escape") { grid.close(); return true; }
  if (key === "Enter" && !control) { grid.commit(); grid.go(grid.row + (shift ? -1 : 1), grid.column); return true; }
  if (key === "Tab") { grid.commit(); step(grid, shift ? -1 : 1); return true; }
  if (arrow && !grid.offers.children.length) { grid.commit(); grid.go(grid.row + (key === "ArrowDown" ? 1 : -1), grid.column); return true; }
  return false;
}

// to the next cell, over the end of a row to the next rule
function step(grid, by) {
  const last = grid.columns.length - 1;
  if (grid.column + by > last) grid.go(grid.row + 1, 0);
  else if (grid.column + by < 0) grid.go(grid.row - 1, last);
  else grid.go(grid.row, grid.column + by);
}

function whileMoving(grid, key, shift, control, alt) {
  const { row, column, sheet, area } = grid;
  if (alt && (key === "ArrowUp" || key === "ArrowDown")) { moveRules(grid, key === "ArrowUp" ? -1 : 1); return true; }
  if (control && !alt) return shortcut(grid, key.toLowerCase(), shift);
  switch (key) {
    case "ArrowUp": grid.go(row - 1, column, shift); return true;
    case "ArrowDown": grid.go(row + 1, column, shift); return true;
    case "ArrowLeft": grid.go(row, column - 1, shift); return true;
    case "ArrowRight": grid.go(row, column + 1, shift); return true;
    case "Home": grid.go(row, 0, shift); return true;
    case "End": grid.go(row, grid.columns.length - 1, shift); return true;
    case "PageUp": grid.go(row - grid.page, column, shift); return true;
    case "PageDown": grid.go(row + grid.page, column, shift); return true;
    case "Tab":   // one Tab in and one out; from cell to cell once somebody types, until Escape
      if (!grid.typing) return false;
      if (!shift && row === grid.last && column === grid.columns.length - 1) return false;
      if (shift && row === 0 && column === 0) return false;
      step(grid, shift ? -1 : 1);
      return true;
    case "Enter": grid.go(row + (shift ? -1 : 1), column); return true;
    case "F2": grid.edit(null); return true;
    case "Delete": case "Backspace": grid.did(sheet.clear(area)); return true;
    case "Escape": grid.typing = false; grid.go(row, column); return true;
    default:
      if (key.length === 1) { grid.edit(key); return true; }
      return false;
  }
}

function shortcut(grid, key, shift) {
  const { sheet, area } = grid;
  switch (key) {
    case "d": grid.did(sheet.fillDown(area)); return true;
    case "a": grid.go(grid.last - 1, grid.columns.length - 1); grid.from = { row: 0, column: 0 }; grid.paint(); return true;
    case "+": case "=": insertRules(grid); return true;
    case "-": removeRules(grid); return true;
    case "home": grid.go(0, 0, shift); return true;
    case "end": grid.go(Math.max(0, grid.last - 1), grid.columns.length - 1, shift); return true;
    case "arrowup": grid.go(0, grid.column, shift); return true;
    case "arrowdown": grid.go(Math.max(0, grid.last - 1), grid.column, shift); return true;
    case "arrowleft": grid.go(grid.row, 0, shift); return true;
    case "arrowright": grid.go(grid.row, grid.columns.length - 1, shift); return true;
    default: return false;   // copy, cut and paste come as events of their own; undo is of the whole page
  }
}

export function insertRules(grid) {
  const { top, bottom } = grid.area;
  grid.from = null;
  grid.row = top;
  grid.did(grid.sheet.insert(top, bottom - top + 1));
}

export function removeRules(grid) {
  const { top, bottom } = grid.area;
  grid.from = null;
  grid.row = top;
  grid.did(grid.sheet.remove(top, bottom));
}

export function moveRules(grid, by) {
  const { top, bottom } = grid.area;
  if (!grid.sheet.move(top, bottom, by)) return;
  grid.row += by;
  if (grid.from) grid.from.row += by;
  grid.did(true);
  grid.reveal();
}
