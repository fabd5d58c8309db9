"use strict";
/* The page of a module: draws one stage of its pipeline at a time, beside the source. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const LINE = 15, PAD = 9;
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "11px ui-monospace, monospace";
  let stage = data.stages.length - 1;
  let isFit = false;
  const layouts = new Map();  // many passes leave the picture as it was

  function make(parent, name, attributes = {}, text = null) {
    const inSvg = parent.namespaceURI === SVG || name === "svg";
    const node = inSvg ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  // Where ways meet; what it took is told at the branch itself.
  function isDot(node) {
    return node.kind === "merge" && !node.lines.join("").trim();
  }

  // Some letters are wider than others even in a font that means them to be equal.
  function widthOf(text) {
    return Math.ceil(pen.measureText(text).width);
  }

  // What recorded runs took, in lines that do not make a box much wider.
  function tookLines(node) {
    const made = [];
    for (const part of (node.took || "").split(/[;,] (?!\d{3}\b)/).filter(Boolean)) {
      const last = made.length ? `${made[made.length - 1]}, ${part}` : "";
      if (last && last.length <= 38) made[made.length - 1] = last;
      else made.push(part);
    }
    return made;
  }

  function layOut(picture) {
    const graph = new dagre.graphlib.Graph({ compound: true, multigraph: true });
    graph.setGraph({ rankdir: "TB", nodesep: 22, ranksep: 28, marginx: 12, marginy: 12 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const region of picture.regions) graph.setNode(region.id, { region });
    for (const node of picture.nodes) {
      const took = tookLines(node);
      const widths = [...node.lines, ...took, node.cost || ""].map(widthOf);
      const lines = node.lines.length + (node.cost ? 1 : 0) + took.length;
      graph.setNode(node.id, {
        node,
        width: isDot(node) ? 12 : Math.max(14, ...widths) + 2 * PAD,
        height: isDot(node) ? 12 : lines * LINE + 2 * PAD - 4,
      });
    }
    for (const child of [...picture.regions, ...picture.nodes]) {
      if (child.parent) graph.setParent(child.id, child.parent);
    }
    picture.edges.forEach((edge, index) => {
      const width = edge.label ? widthOf(edge.label) : 0;
      const label = { edge, width, height: edge.label ? LINE : 0, labelpos: "c" };
      // The way back to a loop's start must not turn the drawing upside down.
      if (edge.kind !== "back") graph.setEdge(edge.source, edge.target, label, String(index));
    });
    dagre.layout(graph);
    return graph;
  }

  function path(points) {
    const [first, ...rest] = points;
    let text = `M${first.x},${first.y}`;
    rest.forEach((point, index) => {
      const after = rest[index + 1];
      if (!after) text += ` L${point.x},${point.y}`;
      else text += ` Q${point.x},${point.y} ${(point.x + after.x) / 2},${(point.y + after.y) / 2}`;
    });
    return text;
  }

  function drawEdge(svg, edge, points) {
    const marker = edge.kind === "value" ? "url(#thin)" : "url(#bold)";
    make(svg, "path", { class: `edge ${edge.kind}`, d: path(points), "marker-end": marker });
    if (!edge.label) return;
    const middle = points[Math.floor(points.length / 2)];
    make(svg, "text", { class: "label", x: middle.x + 4, y: middle.y + 4 }, edge.label);
  }

  function drawNode(svg, { node, x, y, width, height }) {
    const group = make(svg, "g", { class: "node", "data-id": node.id, tabindex: 0 });
    const round = ["gen", "select", "param"].includes(node.kind) ? 9 : 2;
    const ownFill = ["gen", "select", "prologue", "merge", "call", "host", "branch", "loop"];
    const shared = ownFill.includes(node.kind) ? " before" : " shared";
    const kind = `box ${node.kind}${node.shared ? shared : ""}`;
    make(group, "rect", {
      class: kind, x: x - width / 2, y: y - height / 2, width, height,
      rx: node.kind === "merge" ? 6 : round,
    });
    const isBox = node.parent !== undefined;  // states of an automaton tell nothing more
    if (isBox) group.addEventListener("click", () => choose(node));
    group.addEventListener("keydown", (event) => {
      if (isBox && event.key === "Enter") choose(node);
    });
    if (isDot(node)) return;
    const left = x - width / 2 + PAD;
    const top = y - height / 2 + PAD + 7;
    node.lines.forEach((line, index) => {
      make(group, "text", { x: left, y: top + index * LINE, "xml:space": "preserve" }, line);
    });
    if (node.cost) {
      const place = { class: "cost", x: left, y: top + node.lines.length * LINE };
      make(group, "text", place, node.cost);
    }
    const above = node.lines.length + (node.cost ? 1 : 0);
    tookLines(node).forEach((line, index) => {
      make(group, "text", { class: "took", x: left, y: top + (above + index) * LINE }, line);
    });
  }

  function draw() {
    find("graph").replaceChildren();
    const svg = paint(find("graph"), data.stages[stage].picture);
    svg.classList.toggle("fit", isFit);
  }

  function paint(parent, picture) {
    const key = JSON.stringify([picture.regions, picture.nodes, picture.edges]);
    if (!layouts.has(key)) layouts.set(key, layOut(picture));
    const graph = layouts.get(key);
    const { width, height } = graph.graph();
    const size = { width: Math.ceil(width) + 60, height: Math.ceil(height) + 20 };
    const svg = make(parent, "svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}` });
    const defs = make(svg, "defs");
    for (const [id, fill] of [["thin", "#999"], ["bold", "#222"]]) {
      const marker = make(defs, "marker", {
        id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8,
        orient: "auto", markerUnits: "userSpaceOnUse",
      });
      make(marker, "path", { d: "M0,0 L8,4 L0,8 z", fill });
    }
    const laid = graph.nodes().map((id) => graph.node(id));
    for (const { region, x, y, width, height } of laid.filter((each) => each.region)) {
      if (!width) continue;
      const corner = { x: x - width / 2, y: y - height / 2 };
      const kind = `frame ${region.kind}`;
      make(svg, "rect", { class: kind, ...corner, width, height, rx: 6 });
      make(svg, "text", { class: "label", x: corner.x + 6, y: corner.y + 13 }, region.label);
    }
    for (const key of graph.edges()) {
      const { edge, points } = graph.edge(key);
      drawEdge(svg, edge, points);
    }
    for (const edge of picture.edges.filter((each) => each.kind === "back")) {
      const from = graph.node(edge.source), to = graph.node(edge.target);
      // Beside the frame of the loop's body, so that it crosses no box.
      const frame = graph.node(graph.parent(edge.source)) || from;
      const side = Math.max(frame.x + frame.width / 2, to.x + to.width / 2) + 10;
      drawEdge(svg, edge, [
        { x: from.x + from.width / 2, y: from.y }, { x: side, y: from.y },
        { x: side, y: to.y }, { x: to.x + to.width / 2, y: to.y },
      ]);
    }
    laid.filter((each) => each.node).forEach((each) => drawNode(svg, each));
    return svg;
  }

  function mark(line) {
    for (const row of document.querySelectorAll(".line")) {
      row.classList.toggle("marked", Number(row.dataset.line) === line);
    }
    const nodes = data.stages[stage].picture.nodes;
    const lit = new Set(nodes.filter((node) => line && node.line === line).map((node) => node.id));
    for (const group of document.querySelectorAll("#graph svg .node")) {
      group.classList.toggle("marked", lit.has(group.dataset.id));
    }
    const row = document.querySelector(".line.marked");
    if (row) row.scrollIntoView({ block: "nearest" });
  }

  function choose(node) {
    mark(node.line);
    const list = find("details");
    list.replaceChildren();
    const rows = [
      ["kind", node.kind], ["at", node.place], ["text", node.lines.join("\n")],
      ["cost", node.cost], ["took", node.took],
    ];
    const described = make(list, "dl");
    for (const [name, value] of rows.filter((row) => row[1])) {
      make(described, "dt", {}, name);
      make(described, "dd", {}, value);
    }
    const automaton = node.kind === "gen" && data.automata[node.at];
    if (automaton) {
      make(described, "dt", {}, "constraint");
      make(described, "dd", {}, automaton.title);
      paint(make(list, "div", { class: "automaton" }), automaton);
    }
    show("details");
  }

  function show(name) {
    for (const tab of document.querySelectorAll("[role=tab]")) {
      tab.classList.toggle("chosen", tab.dataset.tab === name);
      tab.setAttribute("aria-selected", String(tab.dataset.tab === name));
    }
    for (const part of document.querySelectorAll(".tab")) {
      part.classList.toggle("chosen", part.id === name);
    }
  }

  function goTo(index) {
    stage = Math.min(Math.max(index, 0), data.stages.length - 1);
    const { name, level, remarks, ir, costs } = data.stages[stage];
    find("stage").value = String(stage);
    find("back").disabled = stage === 0;
    find("next").disabled = stage === data.stages.length - 1;
    const done = remarks.filter((remark) => remark.fired).length;
    find("told").textContent = level ? `level ${level}, ${done} changes told` : name;
    find("ir").textContent = ir;
    find("remarks").replaceChildren();
    for (const remark of remarks) {
      const kind = { class: remark.fired ? "fired" : "missed" };
      const item = make(find("remarks"), "li", kind, remark.text);
      item.addEventListener("click", () => mark(remark.line));
    }
    if (!remarks.length) make(find("remarks"), "li", { class: "missed" }, "nothing was told");
    for (const row of document.querySelectorAll(".line")) {
      row.querySelector(".cost").textContent = costs[row.dataset.line] || "";
    }
    draw();
    mark(0);
  }

  find("title").textContent = data.title;
  find("totals").textContent = data.totals;
  data.source.forEach(({ number, text }) => {
    const row = make(find("source"), "div", { class: "line", "data-line": number });
    make(row, "span", { class: "number" }, String(number));
    make(row, "span", { class: "cost", title: "prefill tokens" });
    const took = data.took[number] || "";
    make(row, "span", { class: "took", title: took }, took && "\u25cf");
    make(row, "span", {}, text);
    row.addEventListener("click", () => mark(number));
  });
  data.stages.forEach(({ name }, index) => {
    make(find("stage"), "option", { value: index }, `${index}. ${name}`);
  });
  find("stage").addEventListener("change", (event) => goTo(Number(event.target.value)));
  find("back").addEventListener("click", () => goTo(stage - 1));
  find("next").addEventListener("click", () => goTo(stage + 1));
  find("fit").addEventListener("click", () => {
    isFit = !isFit;
    find("fit").setAttribute("aria-pressed", String(isFit));
    document.querySelector("#graph svg").classList.toggle("fit", isFit);
  });
  for (const tab of document.querySelectorAll("[role=tab]")) {
    tab.addEventListener("click", () => show(tab.dataset.tab));
  }
  document.addEventListener("keydown", (event) => {
    if (event.target.tagName === "SELECT") return;
    if (event.key === "ArrowLeft") goTo(stage - 1);
    if (event.key === "ArrowRight") goTo(stage + 1);
  });
  show("remarks");
  goTo(stage);
})();
