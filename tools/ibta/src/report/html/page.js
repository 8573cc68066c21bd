
"use strict";
(() => {
  const tests = [...document.querySelectorAll(".test")];
  const words = new Map(tests.map(t => [t, t.querySelector("summary").textContent.toLowerCase()]));
  const buttons = [...document.querySelectorAll("#filters [data-verdict]")];
  const [group, search, shown] = ["group", "search", "shown"].map(id => document.getElementById(id));

  function filter() {
    const off = new Set(buttons.filter(b => b.getAttribute("aria-pressed") === "false").map(b => b.dataset.verdict));
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const test of tests) {
      const text = words.get(test);
      test.hidden = off.has(test.dataset.verdict)
        || (group.value !== "" && test.dataset.group !== group.value)
        || !wanted.every(word => text.includes(word));
      count += !test.hidden;
    }
    shown.textContent = `${count} of ${tests.length} shown`;
  }

  for (const button of buttons) {
    button.addEventListener("click", event => {
      // With a modifier: this verdict alone.
      if (event.shiftKey || event.ctrlKey || event.metaKey) {
        for (const other of buttons) other.setAttribute("aria-pressed", other === button);
      } else {
        button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "false");
      }
      filter();
    });
    button.title = "show or hide; with Shift: only these";
  }
  group.addEventListener("change", filter);
  search.addEventListener("input", filter);
  for (const link of document.querySelectorAll("#groups a")) {
    link.addEventListener("click", event => {
      event.preventDefault();
      group.value = link.dataset.group;
      filter();
    });
  }
  document.getElementById("open").addEventListener("click", () => tests.forEach(t => { if (!t.hidden) t.open = true; }));
  document.getElementById("close").addEventListener("click", () => tests.forEach(t => { t.open = false; }));

  // A link to a test opens it; #verdict=fail shows those alone.
  function follow() {
    const asked = decodeURIComponent(location.hash.slice(1));
    if (asked.startsWith("verdict=")) {
      const verdicts = asked.slice(8).split(",");
      for (const button of buttons) button.setAttribute("aria-pressed", verdicts.includes(button.dataset.verdict));
      filter();
    }
    const test = tests.find(t => t.id === asked);
    if (test) { test.open = true; test.hidden = false; test.scrollIntoView(); }
  }
  addEventListener("hashchange", follow);
  filter();
  follow();
  // What failed is what people came for.
  if (!location.hash) tests.filter(t => t.dataset.verdict !== "pass" && t.dataset.verdict !== "na").slice(0, 3).forEach(t => { t.open = true; });
})();
