"use strict";
// The page of a fleet. fleet.js and node/NAME.js hand their data to the functions of `pagelens`.
const pagelens = (() => {
  const STATES = ["ok", "slow", "unknown"];
  const RANK = [2, 0, 1];
  const MOST_ROWS = 100;
  const $ = (selector) => document.querySelector(selector);
  let fleet = null, node = null, shown = [], at = -1, columns = 1, cell = 10;

  // ---- what the URL says -------------------------------------------------------------------------------
  const wanted = () => Object.fromEntries(new URLSearchParams(location.search));
  function want(changes, push) {
    const all = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) value ? all.set(name, value) : all.delete(name);
    const url = all.size ? `?${all}` : location.pathname;
    history[push ? "pushState" : "replaceState"](null, "", url);
    draw();
  }

  // ---- small things ------------------------------------------------------------------------------------
  function make(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text != null) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }
  function shape(parent, name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text != null) made.textContent = text;
    parent.append(made);
    return made;
  }
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const percent = (share) => `${(100 * share).toFixed(0)}%`;
  const number = (value) => value.toLocaleString("en");
  function span(seconds) {
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]])
      if (seconds >= size) return `${Math.round(seconds / size)} ${unit}`;
    return `${Math.max(0, Math.round(seconds))} s`;
  }
  const when = (seconds) => new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ");
  const kindName = (kind) => `${kind.hardware || "hardware not known"}: ${kind.mode}`;

  // ---- the fleet ---------------------------------------------------------------------------------------
  function summary() {
    const c = fleet.counts, all = c.ok + c.slow + c.unknown;
    const cost = fleet.node_hours_a_day
      ? ` The slow ones cost ${number(fleet.node_hours_a_day)} node hours a day where jobs wait for memory alone (modelled).` : "";
    $("#summary").textContent = all
      ? `${number(all)} nodes: ${number(c.slow)} slow, ${number(c.unknown)} unknown, ${number(c.ok)} ok.${cost} As of ${when(fleet.at)} UTC.`
      : "No node has been checked yet.";
    const legend = $("#legend");
    legend.replaceChildren();
    for (const [state, words] of [["slow", "slow, with a bar"], ["unknown", "unknown: too few checks or peers"], ["ok", "ok"]])
      legend.append(make("span", null, { class: "key", style: `background: var(--${state})` }), words);
  }

  function choose() {
    const { state = "", kind = "", name = "" } = wanted();
    const n = fleet.nodes, part = name.toLowerCase();
    shown = [];
    for (let i = 0; i < n.name.length; i++)
      if ((!state || STATES[n.state[i]] === state) && (!kind || String(n.kind[i]) === kind) && n.name[i].toLowerCase().includes(part))
        shown.push(i);
    $("#shown").textContent = `${number(shown.length)} of ${number(n.name.length)} nodes`;
    const form = $("#filters");
    form.state.value = state;
    form.kind.value = kind;
    if (document.activeElement !== form.elements.name) form.elements.name.value = name;
  }

  function grid() {
    const box = $("#grid"), canvas = box.firstElementChild, width = box.clientWidth || 320;
    const area = Math.max(width * Math.min(innerHeight * 0.5, 900), 1);
    cell = Math.max(3, Math.min(28, Math.floor(Math.sqrt(area / Math.max(shown.length, 1)))));
    columns = Math.max(1, Math.floor(width / cell));
    const rows = Math.max(1, Math.ceil(shown.length / columns)), scale = devicePixelRatio || 1;
    canvas.width = columns * cell * scale;
    canvas.height = rows * cell * scale;
    canvas.style.width = `${columns * cell}px`;
    canvas.style.height = `${rows * cell}px`;
    const pen = canvas.getContext("2d"), gap = cell > 5 ? 1 : 0.5;
    pen.scale(scale, scale);
    const fills = STATES.map((state) => colour(`--${state}`)), paper = colour("--paper");
    shown.forEach((i, place) => {
      const x = (place % columns) * cell, y = Math.floor(place / columns) * cell, state = fleet.nodes.state[i];
      pen.fillStyle = fills[state];
      pen.fillRect(x, y, cell - gap, cell - gap);
      if (state === 1 && cell >= 5) {  // not by colour alone
        pen.fillStyle = paper;
        pen.fillRect(x + cell * 0.2, y + cell * 0.4, cell * 0.6 - gap, Math.max(1, cell * 0.15));
      }
    });
    if (at >= 0 && at < shown.length) {
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 2;
      pen.strokeRect((at % columns) * cell, Math.floor(at / columns) * cell, cell, cell);
    }
  }
  function describe(i) {
    const n = fleet.nodes, figure = n.figure[i] == null ? "no figure" : `${n.figure[i]} GB/s`;
    return `${n.name[i]}: ${STATES[n.state[i]]}, ${figure}, ${percent(n.share[i])} of its peers, up ${span(fleet.at - n.booted[i])}`;
  }
  function point(place, say = true) {
    if (!shown.length) return;
    at = Math.max(0, Math.min(shown.length - 1, place));
    grid();
    if (say) $("#said").textContent = describe(shown[at]);
  }
  function placeOf(event) {
    const box = $("#grid canvas").getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left) / cell), y = Math.floor((event.clientY - box.top) / cell);
    const place = y * columns + x;
    return x >= 0 && x < columns && place < shown.length ? place : -1;
  }

  function list() {
    const n = fleet.nodes, body = $("#list tbody");
    const order = [...shown].sort((a, b) => RANK[n.state[a]] - RANK[n.state[b]] || n.share[a] - n.share[b]);
    body.replaceChildren();
    for (const i of order.slice(0, MOST_ROWS)) {
      const row = make("tr"), head = make("td"), open = make("button", n.name[i], { type: "button" });
      open.addEventListener("click", () => openNode(n.name[i]));
      head.append(open);
      row.append(head, make("td", STATES[n.state[i]], { class: `state-${STATES[n.state[i]]}` }));
      for (const text of [n.figure[i] ?? "-", percent(n.share[i]), `${n.evidence[i]} of ${fleet.limit}`, n.jobs[i],
                          span(fleet.at - n.booted[i]), `${span(fleet.at - n.checked[i])} ago`]) row.append(make("td", text));
      body.append(row);
    }
    $("#more").textContent = order.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${number(order.length)}; slow ones come first. The filters above find others.` : "";
  }

  // ---- figures -----------------------------------------------------------------------------------------
  const W = 480, H = 220, L = 40, B = 26, T = 6, R = 8;
  function plot(parent, title, label, height = H) {
    const figure = make("figure"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${W} ${height}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    figure.append(make("figcaption", title), svg);
    parent.append(figure);
    return svg;
  }
  function axes(svg, xs, ys, height = H) {
    shape(svg, "path", { class: "axis", fill: "none", d: `M${L} ${T}V${height - B}H${W - R}` });
    for (const [x, text] of xs) shape(svg, "text", { x, y: height - B + 16, "text-anchor": "middle" }, text);
    for (const [y, text] of ys) shape(svg, "text", { x: L - 5, y: y + 4, "text-anchor": "end" }, text);
  }
  const scaleTo = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

  function ages() {
    const box = $("#ages");
    box.replaceChildren();
    fleet.distributions.forEach((d, k) => {
      if (wanted().kind && wanted().kind !== String(k)) return;
      const most = Math.max(...d.by_age.flat(), 1);
      const x = scaleTo(Math.log(d.ages[0]), Math.log(d.ages.at(-1)), L, W - R), y = scaleTo(d.shares[0], d.shares.at(-1), H - B, T);
      const total = d.by_share.reduce((a, b) => a + b, 0);
      const svg = plot(box, kindName(fleet.kinds[k]), `${number(total)} checks of ${kindName(fleet.kinds[k])} by age and share of the peers' median`);
      const heat = colour("--heat");
      d.by_age.forEach((column, i) => column.forEach((count, j) => {
        if (!count) return;
        const left = x(Math.log(d.ages[i])), top = y(d.shares[j + 1]);
        const strength = 0.12 + 0.88 * Math.log(1 + count) / Math.log(1 + most);
        const mark = shape(svg, "rect", { x: left, y: top, width: x(Math.log(d.ages[i + 1])) - left + 0.3, height: y(d.shares[j]) - top + 0.3, fill: `rgba(${heat},${strength.toFixed(2)})` });
        shape(mark, "title", {}, `${number(count)} checks`);
      }));
      axes(svg, [[x(Math.log(0.1)), "6 min"], [x(0), "1 h"], [x(Math.log(24)), "1 d"], [x(Math.log(168)), "7 d"], [x(Math.log(720)), "30 d"]],
        [0.25, 0.5, 0.75, 1].map((share) => [y(share), percent(share)]));
      if (node && node.kind === k && node.peers)
        node.checks.figure.forEach((figure, i) => {
          if (figure == null) return;
          const age = Math.min(Math.max(node.checks.age[i], d.ages[0]), d.ages.at(-1));
          shape(svg, "circle", { class: "dot", r: 2.6, cx: x(Math.log(age)), cy: y(Math.min(Math.max(figure / node.peers, d.shares[0]), d.shares.at(-1))) });
        });
    });
  }

  function distributions() {
    const box = $("#distributions");
    box.replaceChildren();
    fleet.distributions.forEach((d, k) => {
      if (wanted().kind && wanted().kind !== String(k)) return;
      const name = kindName(fleet.kinds[k]), x = scaleTo(d.shares[0], d.shares.at(-1), L, W - R);
      const most = Math.max(...d.by_share, 1), y = scaleTo(0, Math.log10(1 + most), H - B, T);
      const svg = plot(box, name, `How many checks of ${name} reach which share of the peers' median`);
      d.by_share.forEach((count, j) => {
        const top = y(Math.log10(1 + count)), bar = shape(svg, "rect", { class: "bar", x: x(d.shares[j]) + 0.5, width: x(d.shares[j + 1]) - x(d.shares[j]) - 1, y: top, height: H - B - top });
        shape(bar, "title", {}, `${number(count)} checks at ${percent(d.shares[j])}`);
      });
      const tens = [1, 10, 100, 1e3, 1e4, 1e5, 1e6].filter((count) => count <= most);
      axes(svg, [0.25, 0.5, 0.75, 1].map((share) => [x(share), percent(share)]), tens.map((count) => [y(Math.log10(1 + count)), number(count)]));

      const days = d.days.day, over = plot(box, `${name}, by day`, `Quantiles of ${name} by day`);
      if (!days.length) return;
      const t = scaleTo(days[0], Math.max(days.at(-1), days[0] + 1), L, W - R), v = scaleTo(d.shares[0], d.shares.at(-1), H - B, T);
      for (const [q, style] of [["q0.01", "line thin low"], ["q0.05", "line thin"], ["q0.5", "line"], ["q0.95", "line thin"]])
        shape(over, "path", { class: style, d: d.days[q].map((share, i) => `${i ? "L" : "M"}${t(days[i]).toFixed(1)} ${v(Math.max(share, d.shares[0])).toFixed(1)}`).join("") });
      axes(over, [[t(days[0]) + 20, when(86400 * days[0]).slice(5, 10)], [t(days.at(-1)) - 12, when(86400 * days.at(-1)).slice(5, 10)]],
        [0.25, 0.5, 0.75, 1].map((share) => [v(share), percent(share)]));
    });
  }

  // ---- one node ----------------------------------------------------------------------------------------
  function openNode(name) { want({ node: name }, true); }
  function load(name) {
    document.querySelectorAll("script.node").forEach((old) => old.remove());
    const loading = make("script", null, { src: `node/${encodeURIComponent(name)}.js`, class: "node" });
    loading.onerror = () => { $("#said").textContent = `Nothing is known of a node called ${name}.`; };
    document.body.append(loading);
  }
  function showNode() {
    const box = $("#node"), n = node, c = n.checks;
    box.hidden = false;
    box.replaceChildren();
    const head = make("div", null, { class: "head" }), close = make("button", "Close", { type: "button" });
    close.addEventListener("click", () => { want({ node: "" }, true); $("#grid").focus(); });
    head.append(make("h2", n.name, { id: "node-h" }), close);
    const verdict = make("p"), word = make("span", STATES[n.state], { class: `state-${STATES[n.state]}` });
    verdict.append("It is ", word, `: ${n.reason}. ${n.hardware}, ${n.mode}. Up since ${when(n.booted)} UTC.`,
      n.since ? ` Slow since ${when(n.since)} UTC.` : "");
    box.append(head, verdict);
    if (!c.at.length) return;
    const figures = make("div", null, { class: "figures" });
    box.append(figures);
    const begin = c.at[0], end = Math.max(c.at.at(-1), begin + 1), x = scaleTo(begin, end, L, W - R);
    const most = 1.08 * Math.max(n.peers || 0, ...c.figure.map((figure) => figure || 0), 1), y = scaleTo(0, most, H - B, T);
    const dates = [[L + 20, when(begin).slice(5, 10)], [W - R - 14, when(end).slice(5, 10)]];
    const speed = plot(figures, "GB/s after each job. Line: peers' median. Open dots: no evidence. Dotted: boots.",
      `${c.at.length} checks of ${n.name}, the last ${c.figure.at(-1)} GB/s; peers reach ${n.peers} GB/s`);
    c.boot.forEach((boot, i) => { if (i && boot !== c.boot[i - 1]) shape(speed, "path", { class: "boot", d: `M${x(c.at[i])} ${T}V${H - B}` }); });
    if (n.peers) shape(speed, "path", { class: "line thin", d: `M${L} ${y(n.peers)}H${W - R}` });
    c.figure.forEach((figure, i) => {
      if (figure == null) return;
      const dot = shape(speed, "circle", { class: c.counted[i] ? "dot" : "off", r: 2.6, cx: x(c.at[i]), cy: y(figure) });
      shape(dot, "title", {}, `${when(c.at[i])}, job ${c.job[i] || "-"}: ${figure} GB/s${c.z[i] == null ? "" : `, z ${c.z[i]}`}`);
    });
    for (const action of n.actions) {
      const place = x(Math.min(Math.max(action.at, begin), end));
      const mark = shape(speed, "path", { class: "act", d: `M${place} ${H - B}l-5 9h10z` });
      shape(mark, "title", {}, `${when(action.at)} ${action.step}: ${action.reason}`);
    }
    const step = Math.ceil(most / 4 / 50) * 50;
    axes(speed, dates, [0, 1, 2, 3, 4].map((i) => i * step).filter((value) => value <= most).map((value) => [y(value), value]));

    const orders = Math.max(...c.free.map((blocks) => blocks.length), 0);
    if (orders) {
      const free = plot(figures, "Free memory by the size of its blocks: 4 KiB at the bottom, the largest on top",
        `Free memory of ${n.name} by order over time`);
      const row = scaleTo(0, orders, H - B, T), heat = colour("--heat"), width = (W - R - L) / c.at.length;
      c.free.forEach((blocks, i) => {
        const sum = blocks.reduce((all, count, order) => all + count * 2 ** order, 0) || 1;
        blocks.forEach((count, order) => {
          const share = count * 2 ** order / sum;
          if (share < 0.005) return;
          const mark = shape(free, "rect", { x: L + i * width, width: width + 0.3, y: row(order + 1), height: row(order) - row(order + 1), fill: `rgba(${heat},${(0.08 + 0.92 * Math.sqrt(share)).toFixed(2)})` });
          shape(mark, "title", {}, `${when(c.at[i])}: ${percent(share)} of the free memory in blocks of ${4 * 2 ** order} KiB`);
        });
      });
      axes(free, dates, [0, 3, 6, 9].filter((order) => order < orders).map((order) => [row(order + 0.5), ["4K", "32K", "256K", "2M"][order / 3]]));
    }
    box.append(make("h3", "What was done"));
    if (n.actions.length) {
      const table = make("table", null, { class: "words" });
      for (const action of [...n.actions].reverse()) {
        const line = make("tr");
        for (const text of [when(action.at), action.step, action.reason, action.result]) line.append(make("td", text));
        table.append(line);
      }
      const scroll = make("div", null, { class: "scroll" });
      scroll.append(table);
      box.append(scroll);
    } else box.append(make("p", "Nothing so far.", { class: "note" }));
  }

  // ---- together ----------------------------------------------------------------------------------------
  function draw() {
    if (!fleet) return;
    const open = wanted().node || "";
    choose();
    if (!node || node.name !== open) {
      node = null;
      $("#node").hidden = true;
      if (open) load(open);
    }
    at = shown.findIndex((i) => fleet.nodes.name[i] === open);
    grid();
    list();
    ages();
    distributions();
  }
  function start(data) {
    fleet = data;
    document.title = data.title;
    $("#title").textContent = data.title;
    const select = $("#filters").kind;
    data.kinds.forEach((kind, k) => select.append(make("option", kindName(kind), { value: k })));
    summary();
    draw();
    document.documentElement.dataset.ready = "fleet";
  }
  function arrived(data) {
    if ((wanted().node || "") !== data.name) return;  // another one was opened meanwhile
    const index = fleet.nodes.name.indexOf(data.name);
    node = { ...data, kind: fleet.nodes.kind[index] };
    showNode();
    ages();
    $("#node").focus({ preventScroll: true });
    $("#node").scrollIntoView({ block: "nearest" });
    document.documentElement.dataset.ready = data.name;
  }

  const form = $("#filters"), box = $("#grid");
  form.addEventListener("input", () => want({ state: form.state.value, kind: form.kind.value, name: form.elements.name.value }));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => { event.preventDefault(); form.elements.name.value = ""; want({ state: "", kind: "", name: "" }); });
  box.addEventListener("mousemove", (event) => { const place = placeOf(event); if (place >= 0 && place !== at) point(place); });
  box.addEventListener("click", (event) => { const place = placeOf(event); if (place >= 0) openNode(fleet.nodes.name[shown[place]]); });
  box.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -Infinity, End: Infinity };
    if (event.key in steps) point(Math.max(at, 0) + (at < 0 ? 0 : steps[event.key]));
    else if ((event.key === "Enter" || event.key === " ") && at >= 0) openNode(fleet.nodes.name[shown[at]]);
    else return;
    event.preventDefault();
  });
  addEventListener("popstate", draw);
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => fleet && grid()); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return { fleet: start, node: arrived, failed: (message) => { $("#summary").textContent = message; } };
})();
