"use strict";
// Everything works without this script: it looks for news while somebody is looking, and copies command lines.

const main = () => document.getElementById("main");
// Why the page is left as it is: somebody is filling in a form or has begun to, or has selected text to copy.
function held() {
  const busy = [...main().querySelectorAll("input, select, textarea")].some((field) =>
    field === document.activeElement ||
    (field.options ? [...field.options].some((one) => one.selected !== one.defaultSelected && one.index) :
      field.value !== field.defaultValue));
  return busy ? "a form is in use" : getSelection().toString() ? "text is selected" : "";
}

// --- how old the page is ---------------------------------------------------------------------------

const LATE_MS = 10_000;
const HELD_MS = 30_000;
let last = Date.now();
let trouble = "";

// A length of time in the two largest units, as the server writes it.
function span(seconds) {
  const parts = [];
  let left = Math.round(seconds);
  for (const [size, word] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
    const count = Math.floor(left / size);
    left %= size;
    if (count || parts.length) parts.push([count, word]);
  }
  return parts.slice(0, 2).filter(([count]) => count).map((one) => one.join(" ")).join(" ") || "0 s";
}

function tick() {
  const since = Date.now() - last;
  const ago = document.getElementById("ago");
  if (ago) ago.textContent = span(Number(ago.dataset.seconds) + since / 1000);
  const why = held();
  const words = trouble ? `: ${trouble}.` : why && since >= HELD_MS ? ` while ${why}: reload.` : "";
  const news = document.getElementById("news");
  const text = words && `Not updated since ${new Date(last).toISOString().slice(11, 19)} UTC${words}`;
  if (news.textContent !== text) news.textContent = text;
}

// --- what is new -----------------------------------------------------------------------------------

// What an element is, wherever it stands: in the page that comes, the same thing has the same name.
function name(element) {
  const around = element.closest("article, section");
  const within = around?.querySelector(around.matches("article") ? "p a" : "h2 a")?.getAttribute("href") ??
    around?.getAttribute("aria-labelledby");
  const words = element.closest(".copy")?.querySelector("pre") ?? element;
  const what = element.id || element.getAttribute("href") || element.getAttribute("aria-label") ||
    words.textContent.replace(/\d+/g, "");  // counts come and go
  return [within, element.tagName, what].join("\n");
}
const named = (selector) => new Map([...main().querySelectorAll(selector)].reverse().map((one) => [name(one), one]));
const FOCUSABLE = "a, button, summary, [tabindex]";

// Put what is new into the page: a part that is as it was stays, and what was told by an alert is not told again.
const written = new WeakMap();
const note = (parts) => { for (const one of parts) written.set(one, one.outerHTML); };
function update(parts) {
  note(parts);
  const lead = (one) => one.querySelector("strong")?.textContent;
  const told = new Set([...main().querySelectorAll(".banner.critical")].map(lead));
  let at = main().firstElementChild;
  const drop = (end) => { while (at !== end) { const next = at.nextElementSibling; at.remove(); at = next; } };
  for (const part of parts) {
    let same = at;
    while (same && written.get(same) !== written.get(part)) same = same.nextElementSibling;
    if (same) {
      drop(same);
      at = same.nextElementSibling;
    } else {
      if (part.matches("[role=alert]") && told.has(lead(part))) part.removeAttribute("role");
      main().insertBefore(part, at);
    }
  }
  drop(null);
}

function show(page) {
  const active = main().contains(document.activeElement) ? document.activeElement : null;
  const focused = active && name(active);
  const open = new Map([...named("summary")].map(([key, one]) => [key, one.parentElement.open]));
  const scrolled = new Map([...named(".scroll")].map(([key, one]) => [key, one.scrollLeft]));
  update([...page.getElementById("main").children]);
  document.title = page.title;
  for (const [key, one] of named("summary")) one.parentElement.open = open.get(key) ?? one.parentElement.open;
  for (const [key, one] of named(".scroll")) one.scrollLeft = scrolled.get(key) ?? 0;
  offer();
  if (active && !active.isConnected) (named(FOCUSABLE).get(focused) ?? main()).focus({ preventScroll: true });
  document.querySelector("footer .age")?.replaceWith(page.querySelector("footer .age"));
}

let asking = false;
async function refresh() {
  if (asking || document.hidden || held()) return;
  asking = true;
  const stop = new AbortController();
  const late = setTimeout(() => stop.abort(), LATE_MS);
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, signal: stop.signal });
    const text = await response.text();
    if (held()) return;
    if (response.redirected || response.status === 401) { location.reload(); return; }
    const page = new DOMParser().parseFromString(text, "text/html");
    trouble = fault(response.status) || (page.getElementById("main") ? "" : "what answers is not palanca");
    if (trouble) return;
    show(page);
    last = Date.now();
  } catch {
    trouble = "palanca does not answer";
  } finally {
    clearTimeout(late);
    asking = false;
    tick();
  }
}

// What an answer says that is no page; 408 and 429 ask to come again.
function fault(status) {
  if (status < 400) return "";
  return status < 500 && status !== 408 && status !== 429 ? `this page is gone: ${status}` : `palanca answers ${status}`;
}

// --- copying ---------------------------------------------------------------------------------------

function offer() {
  for (const box of document.querySelectorAll(".copy")) {
    const button = box.querySelector("button");
    if (!button || !navigator.clipboard) continue;
    button.hidden = false;
    button.onclick = async () => {
      await navigator.clipboard.writeText(box.querySelector("pre").textContent.trim());
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    };
  }
}

note(main().children);
offer();
const seconds = Number(main().dataset.refresh);
if (seconds) {
  setInterval(refresh, seconds * 1000);
  setInterval(tick, 1000);
  document.addEventListener("visibilitychange", refresh);
}
