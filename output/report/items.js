"use strict";
(() => {
  const table = document.getElementById("items"), body = table.tBodies[0], form = document.getElementById("filter");
  const shown = document.getElementById("shown"), words = document.getElementById("words");
  const filters = [["status", 1], ["cause", 2], ["stop", 3]].map(([id, column]) => ({ select: document.getElementById(id), column }));
  const earlier = document.getElementById("earlier"), later = document.getElementById("later"), where = document.getElementById("where");
  const perPage = 50, zone = Number(table.dataset.zone) * 60000;
  const all = [], details = [...document.querySelectorAll("script[data-detail]")];
  let found = [], page = 0;

  const unpack = async element => {
    const bytes = Uint8Array.from(atob(element.textContent), c => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  };
  const clock = ms => ms ? new Date(ms + zone).toISOString().replace("T", " ").slice(0, 19) : "";
  const span = ms => ms < 1000 ? ms + "ms" : ms < 59950 ? (ms / 1000).toFixed(1) + "s" :
    ms < 3600000 ? Math.floor(ms / 60000) + "m" + String(Math.floor(ms / 1000) % 60).padStart(2, "0") + "s" :
    Math.floor(ms / 3600000) + "h" + String(Math.floor(ms / 60000) % 60).padStart(2, "0") + "m";
  const count = n => n.toLocaleString("en-US");
  const make = (tag, text, className, label) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    if (label) e.dataset.label = label;
    return e;
  };

  const block = (name, text) => {
    const part = make("div");
    part.append(make("h4", name), make("pre", text));
    return part;
  };
  const attempts = list => {
    const box = make("div", undefined, "scroll"), t = make("table"), head = t.createTHead().insertRow();
    for (const name of ["#", "Started", "Took", "HTTP", "Outcome", "Then waited", "Limit"]) head.append(make("th", name));
    const rows = t.createTBody();
    for (const [n, started, took, http, outcome, error, wait, limit, unsent] of list) {
      const row = rows.insertRow();
      for (const v of [n, clock(started), took, http || "", outcome + (unsent ? ", not sent" : ""), wait, limit || ""]) row.append(make("td", v));
      if (error) rows.insertRow().append(Object.assign(make("td", error, "text muted"), { colSpan: 7 }));
    }
    box.append(make("h4", "Attempts"), t);
    return box;
  };
  const unfold = async (row, item, button) => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) { row.nextSibling.remove(); return; }
    const under = make("tr", undefined, "open"), cell = make("td");
    cell.colSpan = 7;
    under.append(cell);
    row.after(under);
    const source = details[item.chunk];
    if (!source.textContent) { cell.append(make("p", "This page has no question and answer of this item: it would be too large. The results file has them.", "muted")); return; }
    source.rows = source.rows || unpack(source);
    const [asked, answer, message, cost, input, output, list] = (await source.rows)[item.place];
    if (asked) cell.append(block("Asked", asked));
    if (answer || item.row[1] === "ok") cell.append(block("Answer", answer || "(no text)"));
    if (message) cell.append(block("Why not", message));
    const facts = [item.row[7] && "model " + item.row[7], (input || output) && count(input) + " tokens in, " + count(output) + " out", cost && "cost " + cost].filter(Boolean);
    if (facts.length) cell.append(make("p", facts.join(", "), "muted"));
    if (list.length) cell.append(attempts(list));
  };

  const draw = () => {
    body.replaceChildren();
    for (const item of found.slice(page * perPage, (page + 1) * perPage)) {
      const [id, status, cause, stop, tries, took, finished, , preview] = item.row;
      const row = body.insertRow(), head = make("th", undefined, "id", "Id"), button = make("button", id || "(no id)");
      head.scope = "row";
      button.type = "button";
      button.setAttribute("aria-expanded", "false");
      button.addEventListener("click", () => unfold(row, item, button));
      head.append(button);
      row.append(head, make("td", status, "word", "Status"), make("td", cause || stop, "word", "Cause or stop reason"), make("td", preview, "text", "Answer or message"),
        make("td", tries, "num", "Attempts"), make("td", tries ? span(took) : "", "num", "Took"), make("td", clock(finished), "word", "Finished"));
    }
    const pages = Math.max(Math.ceil(found.length / perPage), 1);
    shown.textContent = found.length === all.length ? count(all.length) + " items." : count(found.length) + " of " + count(all.length) + " items match.";
    where.textContent = "page " + count(page + 1) + " of " + count(pages);
    earlier.disabled = page === 0;
    later.disabled = page >= pages - 1;
  };
  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = all.filter(item => filters.every(f => !f.select.value || item.row[f.column] === f.select.value) && wanted.every(w => item.text.includes(w)));
    page = 0;
    draw();
  };
  const turn = by => { page += by; draw(); };

  const load = async () => {
    for (const [chunk, element] of [...document.querySelectorAll("script[data-index]")].entries()) {
      const rows = await unpack(element);
      element.remove();
      rows.forEach((row, place) => all.push({ row, chunk, place, text: [row[0], row[2], row[3], row[7], row[8], row[9]].join("\n").toLowerCase() }));
      if (chunk === 0) { found = all; draw(); }
    }
    for (const f of filters) {
      const values = [...new Set(all.map(item => item.row[f.column]).filter(Boolean))].sort();
      for (const value of values) f.select.add(new Option(value, value));
      f.select.closest("label").hidden = values.length < 2;
    }
    form.addEventListener("input", filter);
    form.addEventListener("submit", e => e.preventDefault());
    earlier.addEventListener("click", () => turn(-1));
    later.addEventListener("click", () => turn(1));
    form.hidden = false;
    document.getElementById("pages").hidden = false;
    found = all;
    draw();
    table.dataset.ready = "true";
  };
  load().catch(e => { shown.textContent = "This browser can't read the items: " + e.message; });
})();
