"use strict";
// Draws the page from the JSON in #data. Every text goes in as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const ROW = 26, COLUMN = 22, LABEL = 210, NARROW = 120, BARRIER = 24, TOP = 18;
  const QUIET = new Set(["read", "write", "other"]);
  const narrow = () => innerWidth < 700;
  const context = () => (narrow() ? 1 : 2);

  const element = (tag, attributes = {}, ...children) => {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attributes)) {
      if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
      else if (v !== null && v !== undefined) e.setAttribute(k, v);
    }
    e.append(...children.filter((c) => c !== null && c !== undefined));
    return e;
  };
  const shape = (tag, attributes = {}, text = null) => {
    const e = document.createElementNS(SVG, tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== null) e.textContent = text;
    return e;
  };
  const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

  // ------------------------------------------------------------ index and filter

  const state = { text: "", verdicts: new Set(["proved", "refuted", "unknown"]), shown: -1 };
  const rows = [];

  function matches(k) {
    const words = [k.name, k.file, ...k.findings.map((f) => `${f.rule} ${f.name}`)].join(" ").toLowerCase();
    return state.verdicts.has(k.verdict) && words.includes(state.text.toLowerCase());
  }

  function refilter() {
    data.kernels.forEach((k, i) => { rows[i].hidden = !matches(k); });
  }

  function index() {
    document.getElementById("summary").textContent = `${data.summary}; policy ${data.policy}`;
    const body = document.querySelector("#index tbody");
    // There is nothing to choose among one kernel's rows, and its finding shall stand in sight.
    for (const part of ["nav", "#filters"]) document.querySelector(part).hidden = data.kernels.length < 2;
    data.kernels.forEach((k, i) => {
      const first = k.findings[0];
      const row = element("tr", { tabindex: "0", "data-kernel": i, onclick: () => show(i), onkeydown: (e) => { if (e.key === "Enter") show(i); } },
        element("td", { class: k.verdict }, k.verdict),
        element("td", {}, k.name, " ", element("span", { class: "faint" }, k.file)),
        element("td", {}, first ? `${first.rule} ${first.name}, line ${first.line}` : k.reason || ""),
        element("td", { class: "wide" }, k.seconds.toFixed(2)));
      rows.push(row);
      body.append(row);
    });
    for (const e of data.errors) document.querySelector("header").append(element("p", { class: "error" }, `error: ${e}`));
    const verdicts = document.getElementById("verdicts");
    for (const v of ["refuted", "unknown", "proved"]) {
      const n = data.kernels.filter((k) => k.verdict === v).length;
      if (!n) continue;
      const button = element("button", { type: "button", class: v, "aria-pressed": "true", onclick: () => {
        if (state.verdicts.has(v)) state.verdicts.delete(v); else state.verdicts.add(v);
        button.setAttribute("aria-pressed", String(state.verdicts.has(v)));
        refilter();
      } }, `${n} ${v}`);
      verdicts.append(button, " ");
    }
    document.getElementById("filter").addEventListener("input", (e) => { state.text = e.target.value; refilter(); });
  }

  // ------------------------------------------------------------ one kernel

  function show(i) {
    state.shown = i;
    rows.forEach((r, j) => r.setAttribute("aria-selected", String(i === j)));
    const k = data.kernels[i];
    const at = document.getElementById("kernel");
    at.replaceChildren(
      element("h2", {}, `${k.name}: `, element("span", { class: k.verdict }, k.verdict)),
      element("p", { class: "faint" }, [k.file, k.arch, scopeOf(k), `${k.seconds.toFixed(2)} s`].filter(Boolean).join("; ")));
    if (k.reason) at.append(element("p", {}, k.reason));
    const [first, ...others] = k.findings;
    if (first) at.append(finding(first));
    if (k.witness) at.append(...picture(k.witness));
    if (others.length) {
      at.append(element("details", {}, element("summary", {}, plural(others.length, "further finding")), ...others.map(finding)));
    }
    const facts = [...k.assume.map((a) => `given: ${a}`), ...k.assumptions.map((a) => `assumed: ${a}`)];
    if (facts.length) at.append(element("h3", {}, "What this verdict assumes"), element("ul", {}, ...facts.map((f) => element("li", {}, f))));
    const [by, ...shown] = k.acceptance;
    if (by) at.append(element("h3", {}, by), element("ul", {}, ...shown.map((f) => element("li", {}, f.trim()))));
    if (k.replay) at.append(element("p", {}, k.replay));
    const copy = element("button", { type: "button", onclick: async () => {
      try { await navigator.clipboard.writeText(k.text); copy.textContent = "copied"; }
      catch { plain.open = true; getSelection().selectAllChildren(plain.querySelector("pre")); }
    } }, "Copy as text");
    const plain = element("details", {}, element("summary", {}, "As text"), element("pre", { class: "source" }, k.text));
    at.append(element("p", {}, copy), plain);
    if (location.hash !== `#k${i}`) history.replaceState(null, "", `#k${i}`);
  }

  function scopeOf(k) {
    return k.scope === "all" ? "every launch" : k.values;
  }

  function finding(f) {
    const places = [{ file: f.file, line: f.line, text: "" }, ...f.labels.filter((l) => !l.detail)];
    const box = element("section", { class: `cause ${f.severity}` },
      element("p", {}, element("b", { class: f.severity }, `${f.severity} ${f.rule} ${f.name}`), f.cause ? ": " : "", element("b", {}, f.cause || "")),
      element("p", { class: "message" }, f.message));
    for (const file of new Set(places.map((p) => p.file))) {
      box.append(source(file, places.filter((p) => p.file === file)));
    }
    if (f.repair) {
      const fix = element("div", { class: "fix" }, element("p", {}, element("b", {}, `Fix (${f.repair.mistake}), checked: `), f.repair.at && `${f.repair.at}: `, f.repair.text, `; ${f.repair.checked}.`));
      box.append(fix);
      if (f.repair.diff.length) {
        const width = Math.max(...f.repair.diff.map(([, n]) => n.length));
        fix.append(element("pre", { class: "diff" }, ...f.repair.diff.map(([sign, n, x]) =>
          element("span", { class: { "-": "gone", "+": "come", " ": "faint" }[sign] }, `${n.padStart(width)} ${sign} ${x}\n`))));
      }
    } else if (f.fix) box.append(element("p", { class: "help" }, element("b", {}, f.cause ? `Help (${f.cause}): ` : "Help: "), f.fix));
    for (const l of f.labels.filter((l) => l.detail)) box.append(element("p", { class: "faint" }, `${l.text} (${l.file}:${l.line})`));
    if (f.contested) box.append(element("p", { class: "faint" }, `contested ${f.contested}`));
    return box;
  }

  /** Lines of a file around some places, those marked, with their texts below them. */
  function source(file, places) {
    const lines = data.sources[file] || {};
    const wanted = new Set();
    for (const p of places) for (let n = p.line - context(); n <= p.line + context(); n++) if (lines[n] !== undefined) wanted.add(n);
    const table = element("table", {}, element("caption", { class: "faint", style: "text-align:left;padding-left:.6rem" }, file));
    let last = null;
    const indented = (line) => line.length - line.trimStart().length;
    const least = Math.min(...[...wanted].map((n) => lines[n]).filter((line) => line.trim()).map(indented));
    for (const n of [...wanted].sort((a, b) => a - b)) {
      if (last !== null && n > last + 1) table.append(element("tr", {}, element("td", { class: "number" }, "..."), element("td", {}, "")));
      last = n;
      const here = places.filter((p) => p.line === n);
      const texts = [...new Set(here.map((p) => p.text).filter(Boolean))];
      const deep = Math.max(indented(lines[n]) - least, 0);
      const indent = `padding-left: ${deep}ch`;
      // A long line goes on below itself in a narrow window, two characters in.
      const code = narrow() ? element("div", { style: `padding-left: ${deep + 2}ch; text-indent: -2ch` }, lines[n].trim()) : lines[n].slice(least);
      table.append(element("tr", here.length ? { class: "here" } : {},
        element("td", { class: "number" }, String(n)), element("td", {}, code, ...texts.map((text) => element("div", { class: "label", style: indent }, text)))));
    }
    return element("div", { class: "source", tabindex: "0" }, table);
  }

  // ------------------------------------------------------------ the schedule as a picture

  function picture(w) {
    const view = { all: w.steps.length <= 60, at: w.steps.length - 1 };
    const box = element("div", { class: "picture", tabindex: "0", role: "group", "aria-label": "Schedule; arrow keys step through it" });
    const now = element("div", { class: "now" });
    const range = element("input", { type: "range", min: "0", max: String(Math.max(w.steps.length - 1, 0)), "aria-label": "Step" });
    const count = element("span", { class: "code" });
    const all = element("button", { type: "button", "aria-pressed": String(view.all), onclick: () => {
      view.all = !view.all;
      all.setAttribute("aria-pressed", String(view.all));
      redraw();
    } }, "all steps");
    const controls = element("div", { class: "controls" },
      element("button", { type: "button", "aria-label": "Previous step", onclick: () => go(-1) }, "◀"), range,
      element("button", { type: "button", "aria-label": "Next step", onclick: () => go(1) }, "▶"), count, all);
    let drawn = null;

    function redraw() { drawn = draw(w, view); box.replaceChildren(drawn.svg); select(view.at); }
    function visible(i) { return drawn.column[i] !== undefined; }
    function go(by) {
      let i = view.at + by;
      while (i >= 0 && i < w.steps.length && !visible(i)) i += by;
      if (i >= 0 && i < w.steps.length) select(i);
    }
    function select(i) {
      view.at = i;
      range.value = String(i);
      count.textContent = w.steps.length ? `step ${i + 1} of ${w.steps.length}` : "no steps";
      drawn.cursor(i);
      now.replaceChildren(...details(w, i));
      const x = drawn.x(i);
      if (x < box.scrollLeft + drawn.label + COLUMN || x > box.scrollLeft + box.clientWidth - COLUMN) box.scrollLeft = x - box.clientWidth / 2;
    }
    range.addEventListener("input", () => select(Number(range.value)));
    box.addEventListener("keydown", (e) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (by) go(by);
      else if (e.key === "Home") select(0);
      else if (e.key === "End") select(w.steps.length - 1);
      else return;
      e.preventDefault();
    });
    box.addEventListener("click", (e) => {
      const i = e.target.getAttribute && e.target.getAttribute("data-step");
      if (i !== null && i !== undefined) select(Number(i));
    });
    queueMicrotask(redraw);
    const title = { hang: "This schedule hangs", "stale-value": "This schedule reads or leaves a wrong value", ub: "This schedule is undefined behaviour", "order-violation": "In this schedule an operation lands in another phase" }[w.claim];
    return [element("h3", {}, title), legend(), controls, box, now, ...stuck(w)];
  }

  function legend() {
    const entries = [["var(--green)", "arrive"], ["var(--blue)", "wait"], ["var(--amber)", "expect-tx"], ["var(--violet)", "asynchronous operation"], ["var(--ink)", "fence, barrier"], ["var(--red)", "waits for ever"]];
    const dots = entries.map(([c, t]) => element("span", {}, element("i", { style: `background:${c}` }), t));
    return element("p", { class: "legend faint" }, ...dots, element("span", {}, "barrier rows: phase: arrivals pending/count"));
  }

  function draw(w, view) {
    const label = narrow() ? NARROW : LABEL;
    const column = {};
    let columns = 0;
    w.steps.forEach((s, i) => { if (view.all || !QUIET.has(s.kind)) column[i] = columns++; });
    const before = (i) => { let j = i; while (j > 0 && column[j] === undefined) j--; return column[j] ?? 0; };
    const x = (i) => label + before(i) * COLUMN + COLUMN / 2;
    const end = label + (columns + 2) * COLUMN;
    const y = (lane) => TOP + lane * ROW + ROW / 2;
    const bottom = TOP + w.lanes.length * ROW + 10;
    const height = bottom + w.barriers.length * BARRIER + 8;
    const svg = shape("svg", { width: end + 40, height, role: "img" });
    svg.append(shape("title", {}, `${w.lanes.length} lanes, ${w.steps.length} steps`));
    w.lanes.forEach((_, n) => svg.append(shape("rect", { x: 0, y: TOP + n * ROW, width: end + 40, height: ROW, class: `row ${n % 2 ? "alternate" : ""}` })));
    for (const c of w.copies) {
      const from = x(c.issue), to = c.completion === null ? end : x(c.completion);
      const bar = shape("rect", { x: from, y: y(c.lane) - 6, width: Math.max(to - from, 4), height: 12, rx: 4, class: "copy", "data-step": c.issue });
      bar.append(shape("title", {}, c.completion === null ? `${c.text}: in flight at the end` : c.text));
      svg.append(bar);
    }
    const inCycle = new Set(w.cycle);
    for (const b of w.blocked) {
      const lasts = w.steps.map((s, i) => (s.lane === b.lane ? i : -1)).filter((i) => i >= 0);
      const from = lasts.length ? x(lasts[lasts.length - 1]) + 6 : label;
      const bar = shape("rect", { x: from, y: y(b.lane) - 9, width: Math.max(end - from, 8), height: 18, rx: 4, class: `stuck ${inCycle.has(b.lane) ? "cycle" : ""}` });
      bar.append(shape("title", {}, `line ${b.line}: waits for ever on ${b.waits_on}: ${b.why}`));
      svg.append(bar);
    }
    for (const a of w.arrows) {
      if (column[a.start] === undefined || column[a.end] === undefined) continue;
      const x1 = x(a.start), x2 = x(a.end), y1 = y(w.steps[a.start].lane), y2 = y(w.steps[a.end].lane);
      svg.append(shape("path", { d: `M${x1},${y1} C${x1 + 14},${y1} ${x2 - 14},${y2} ${x2},${y2}`, class: `arrow ${a.last ? "last" : ""}` }));
    }
    w.steps.forEach((s, i) => {
      if (column[i] === undefined) return;
      const dot = shape("circle", { cx: x(i), cy: y(s.lane), r: 6, class: `step ${s.kind}`, "data-step": i });
      dot.append(shape("title", {}, `line ${s.line}: ${s.op}`));
      svg.append(dot);
    });
    const briefs = [];
    w.barriers.forEach((b, n) => {
      const top = bottom + n * BARRIER;
      b.spans.forEach((s, j) => {
        const from = x(s.start), to = j + 1 < b.spans.length ? x(b.spans[j + 1].start) : end;
        const width = Math.max(to - from, 2);
        const rect = shape("rect", { x: from, y: top + 2, width, height: BARRIER - 4, class: `phase ${s.phase % 2 ? "odd" : "even"}`, "data-step": s.start });
        const text = `phase ${s.phase}: ${s.pending} of ${s.count} arrivals pending, ${s.tx} bytes outstanding`;
        rect.append(shape("title", {}, `${b.name} ${text}`));
        svg.append(rect);
        const brief = `${s.phase}: ${s.pending}/${s.count}${s.tx ? ` ${s.tx}B` : ""}`;
        if (width > brief.length * 8) {
          const t = shape("text", { x: from + 4, y: top + BARRIER - 8, class: "faint" }, brief);
          briefs.push({ t, from, most: to - brief.length * 8 });
          svg.append(t);
        }
      });
    });
    // Labels lie above everything and stay at the left while the picture is scrolled.
    const frozen = shape("g");
    frozen.append(shape("rect", { x: 0, y: 0, width: label - 4, height, class: "frozen" }));
    // A narrow window has no room for more than w4:1-31; the title says it in full.
    const brief = (l) => l.label.replace(/warps? /, "w").replace(/ lanes? /, ":");
    const ofBlock = (l) => (new Set(w.lanes.map((o) => o.cta)).size > 1 ? `c${l.cta} ` : "");
    const nameOf = (l) => label === NARROW
      ? `${l.asynchronous ? "  ⤷ " : ""}${ofBlock(l)}${brief(l)}`
      : l.asynchronous ? `  ⤷ async of ${brief(l)}` : `cta${l.cta} ${l.label}`;
    const cut = (t) => (t.length * 8 > label - 12 ? `${t.slice(0, Math.floor((label - 20) / 8))}…` : t);
    w.lanes.forEach((l, n) => {
      const t = shape("text", { x: 4, y: y(n) + 4, class: l.asynchronous ? "faint" : "" }, cut(nameOf(l)));
      t.append(shape("title", {}, l.asynchronous ? `asynchronous operations of cta${l.cta} ${l.label}` : `cta${l.cta} ${l.label}`));
      frozen.append(t);
    });
    w.barriers.forEach((b, n) => {
      const t = shape("text", { x: 4, y: bottom + n * BARRIER + BARRIER - 8 }, cut(b.name));
      t.append(shape("title", {}, b.name));
      frozen.append(t);
    });
    const cursor = shape("line", { y1: TOP - 6, y2: height, class: "cursor" });
    svg.append(cursor, frozen);
    // So do the labels of barriers' phases, as long as their bars are in sight.
    const scrolled = (left) => {
      frozen.setAttribute("transform", `translate(${left},0)`);
      for (const b of briefs) b.t.setAttribute("x", Math.max(b.from, Math.min(left + label, b.most)) + 4);
    };
    queueMicrotask(() => svg.parentElement && svg.parentElement.addEventListener("scroll", (e) => scrolled(e.target.scrollLeft)));
    return { svg, column, x, label, cursor: (i) => { cursor.setAttribute("x1", x(i)); cursor.setAttribute("x2", x(i)); } };
  }

  /** What happens at step `i`, its source, and how every barrier stands then. */
  function details(w, i) {
    const s = w.steps[i];
    if (!s) return [];
    const left = element("div", {}, element("p", {}, element("b", {}, s.agent), ` line ${s.line}: `, element("code", {}, s.op)), source(s.file, [{ line: s.line, text: "" }]));
    const table = element("table", {}, element("tr", {}, ...["barrier", "phase", "pending", "bytes"].map((t) => element("th", {}, t))));
    for (const b of w.barriers) {
      let span = null;
      for (const p of b.spans) if (p.start <= i) span = p;
      const cells = span ? [String(span.phase), `${span.pending} of ${span.count}`, String(span.tx)] : ["not initialized", "", ""];
      table.append(element("tr", b.name === s.barrier ? { class: "here", style: "background:var(--mark)" } : {}, element("td", { class: "name" }, b.name), ...cells.map((c) => element("td", {}, c))));
    }
    return [left, element("div", {}, table)];
  }

  function stuck(w) {
    if (!w.blocked.length) return [];
    const groups = new Map();
    for (const b of w.blocked) {
      const key = `${b.lane}|${b.line}|${b.waits_on}|${b.phase}|${b.why}`;
      groups.set(key, b);
    }
    const table = element("table", {}, element("tr", {}, ...["waits for ever", "line", "on", "phase", "has"].map((t) => element("th", {}, t))));
    for (const b of groups.values()) {
      const lane = w.lanes[b.lane];
      table.append(element("tr", {}, ...[`cta${lane.cta} ${lane.label}`, b.line, b.waits_on, b.phase ?? "", b.why].map((c) => element("td", c === b.waits_on ? { class: "name" } : {}, String(c)))));
    }
    const names = w.cycle.map((n) => w.lanes[n].label);
    return [element("h3", {}, "Who waits for ever"), table,
      names.length > 1 ? element("p", {}, `They wait for each other: ${names.join(", ")}.`) : null].filter(Boolean);
  }

  // ------------------------------------------------------------ start

  document.addEventListener("keydown", (e) => {
    if (e.target.tagName === "INPUT" || e.metaKey || e.ctrlKey || e.altKey) return;
    if (e.key === "/") { document.getElementById("filter").focus(); e.preventDefault(); return; }
    const by = { j: 1, k: -1 }[e.key];
    if (!by) return;
    let i = state.shown + by;
    while (i >= 0 && i < rows.length && rows[i].hidden) i += by;
    if (i >= 0 && i < rows.length) show(i);
  });
  index();
  const wanted = /^#k(\d+)$/.exec(location.hash);
  const worst = ["refuted", "unknown", "proved"].map((v) => data.kernels.findIndex((k) => k.verdict === v)).find((i) => i >= 0);
  const first = wanted && Number(wanted[1]) < data.kernels.length ? Number(wanted[1]) : worst;
  if (first !== undefined && first >= 0) show(first);
})();
