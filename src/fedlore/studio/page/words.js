// Words in the language of the browser, from one catalogue per language; numbers in its writing.

let words = {}, spare = {}, known = [];
export let language = "en";

async function load(name) {
  return (await fetch(`/page/words.${name}.json`)).json();
}

export async function speak(languages) {
  known = languages;
  const wanted = [chosen(), ...(navigator.languages || [])].filter(Boolean);
  language = wanted.map((tag) => tag.toLowerCase().split("-")[0]).find((tag) => languages.includes(tag)) || "en";
  spare = await load("en");
  words = language === "en" ? spare : await load(language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : language;
}

const chosen = () => { try { return localStorage.getItem("language"); } catch { return null; } };

// every language by its own name, and what to do once another one is taken
export function otherLanguages(onchange) {
  return known.map((tag) => ({ tag, name: new Intl.DisplayNames([tag], { type: "language" }).of(tag), take: () => {
    try { localStorage.setItem("language", tag); } catch { /* a private window */ }
    onchange();
  } }));
}

export function say(key, values = {}) {
  const text = words[key] ?? spare[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

// as a person of this place writes it; never used for what goes back to the service
export function shown(value, digits = 6) {
  if (typeof value !== "number") return value ?? "";
  return value.toLocaleString(document.documentElement.lang, { maximumSignificantDigits: digits, useGrouping: false });
}

export function when(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? text : time.toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
}
