"use strict";
// Everything works without this script: it looks for news while somebody is looking, and copies command lines.

const main = () => document.getElementById("main");
const say = (text) => { document.getElementById("news").textContent = text; };
// Whether somebody is filling in a form, or has begun to.
const busy = () => [...main().querySelectorAll("input, select, textarea")].some((field) =>
  field === document.activeElement ||
  (field.options ? [...field.options].some((one) => one.selected !== one.defaultSelected && one.index) :
    field.value !== field.defaultValue));
let last = new Date();

// How to find an element again in the page that comes: by its place among its like.
const place = (element, selector) => [...main().querySelectorAll(selector)].indexOf(element);

async function refresh() {
  if (document.hidden || busy() || getSelection().toString()) return;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (response.redirected) { location.reload(); return; }
    if (!response.ok) throw new Error(String(response.status));
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.getElementById("main");
    if (!fresh || busy()) return;
    const focused = place(document.activeElement, "a, button, summary, [tabindex]");
    const open = [...main().querySelectorAll("details")].map((one) => one.open);
    const scrolled = [...main().querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    main().replaceChildren(...fresh.childNodes);
    document.title = page.title;
    main().querySelectorAll("details").forEach((one, at) => { one.open = open[at] ?? one.open; });
    main().querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = scrolled[at] ?? 0; });
    if (focused >= 0) main().querySelectorAll("a, button, summary, [tabindex]")[focused]?.focus({ preventScroll: true });
    document.querySelector("footer .age")?.replaceWith(page.querySelector("footer .age"));
    last = new Date();
    say("");
    offer();
  } catch {
    say(`Not updated since ${last.toLocaleTimeString()}: palanca does not answer.`);
  }
}

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

offer();
const seconds = Number(main().dataset.refresh);
if (seconds) {
  setInterval(refresh, seconds * 1000);
  document.addEventListener("visibilitychange", refresh);
}
