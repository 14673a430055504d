// What was measured of the row above goes into the site's record; what it says stands beside.
const SHOWN = 6;  // questions in the table, those with most evidence first

function buildMonitor() {
  const target = form.target, field = make(target ? "input" : "select");
  if (target) {
    field.inputMode = "decimal";
    field.autocomplete = "off";
  } else {
    for (const name of ["", ...form.classes]) field.append(make("option", name));
  }
  field.id = "label-measured";
  at("measured-label").textContent = say("Measured {label} of the row above", { label: form.label });
  at("measured-label").htmlFor = field.id;
  if (target && target.unit) at("measured-label").append(make("span", ` ${target.unit}`, "soft"));
  at("measured-label").after(field);
  const now = new Date(), two = (n) => String(n).padStart(2, "0");
  at("day").value = `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  at("monitor").hidden = false;
}

async function showMonitor() {
  const report = await ask("/monitor");
  at("alarms").replaceChildren(...report.sentences.map(
    (text) => make("p", text, report.alarms.length ? "warn" : "")));
  const share = (one) => Math.log(Math.max(one.evidence, 1)) / Math.log(one.needed);
  const order = [...report.questions].sort((a, b) => share(b) - share(a));
  at("questions").replaceChildren(...order.slice(0, SHOWN).map((one) => {
    const line = make("tr");
    const bar = make("div", "", one.alarm ? "bar loud" : "bar"), cell = make("td");
    bar.append(make("div"));
    bar.firstChild.style.width = 100 * Math.min(share(one), 1) + "%";
    cell.append(bar);
    const said = one.alarm ? say("alarm, since {since}", one) : say("{rows} rows", one);
    line.append(make("th", one.name), make("td", one.claim), cell, make("td", said));
    line.children[0].scope = "row";
    return line;
  }));
  const left = order.length - SHOWN;
  at("quiet").textContent = say("The bar is full where the evidence against a claim raises an alarm.") +
    (left > 0 ? " " + say("{left} more questions have less.", { left }) : "");
}

async function recordMeasured(event) {
  event.preventDefault();
  const field = at("label-measured"), said = field.value.trim(), out = at("brought");
  field.classList.remove("wrong");
  out.textContent = "";
  try {
    const measured = form.target ? number(said) : said || null;
    if (measured === null) {
      field.classList.add("wrong");
      throw new Error(say(said ? "The measured {label} is not a number." : "The measured {label} is missing.", form));
    }
    const sent = { row: row(), measured, day: at("day").value.trim() };
    const taken = await ask("/measured", JSON.stringify(sent));
    out.textContent = say(taken.new ? "Recorded: {rows} rows."
      : "This row is already recorded, with this answer and day.", taken);
    await showMonitor();
  } catch (error) {
    out.textContent = error.message || say("The service does not answer.");
  }
}

at("bring").addEventListener("submit", recordMeasured);
