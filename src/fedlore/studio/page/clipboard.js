// Tables on the clipboard, as spreadsheet programs write them: tabs, and quotes around line breaks.

export function parseTable(text) {
  const rows = [[]];
  let cell = "", quoted = false;
  const end = () => { rows.at(-1).push(cell); cell = ""; };
  const plain = text.replace(/\r\n?/g, "\n").replace(/\n$/, "");
  for (let i = 0; i < plain.length; i += 1) {
    const sign = plain[i];
    if (quoted) {
      if (sign === '"' && plain[i + 1] === '"') { cell += '"'; i += 1; }
      else if (sign === '"') quoted = false;
      else cell += sign;
    } else if (sign === '"' && cell === "" && closes(plain, i)) quoted = true;
    else if (sign === "\t") end();
    else if (sign === "\n") { end(); rows.push([]); }
    else cell += sign;
  }
  end();
  return rows;
}

// a quote opens a cell only where another one ends it: a level may be called "A" in a list
function closes(text, start) {
  const rest = text.slice(start + 1);
  const found = /^(?:[^"]|"")*"(?=\t|\n|$)/.exec(rest);
  return found !== null && /[\t\n"]/.test(found[0].slice(0, -1));
}

export function formatTable(rows) {
  const cell = (text) => (/[\t\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => row.map(cell).join("\t")).join("\n");
}

const COMMA = /^\s*([<>]=?|=|≤|≥)?\s*[+-]?\d+,\d+\s*$/;
const BETWEEN = /^\s*[[(]?\s*[+-]?\d+(?:[.,]\d+)?\s*\.\.\s*[+-]?\d+(?:[.,]\d+)?\s*[\])]?\s*$/;

const SPAN = /^\s*(\d+(?:[.,]\d+)?)\s*[-–—~]\s*(\d+(?:[.,]\d+)?)\s*$/;
const WIDE = /[＞＜＝≧≦．，０-９（）［］－]/g;   // as input methods write them

const narrow = (sign) => ({ "≧": ">=", "≦": "<=" })[sign] || String.fromCharCode(sign.charCodeAt(0) - 0xfee0);

// a decimal comma where nothing else can be meant; `in 3,5` is left for the linter to ask about;
// `12-14` is a span
export function decimalPoint(wide) {
  const text = wide.replace(WIDE, narrow).replace(SPAN, "$1..$2");
  return COMMA.test(text) || BETWEEN.test(text) ? text.replace(/(\d),(\d)/g, "$1.$2") : text;
}
