// The playground's page. Text of documents and models is put there as text, never as markup.
"use strict";

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 4;
// The page begins with a document that is cut at once.
const MOST_CHUNKS_AT_FIRST = 200;

/** An element with properties, attributes (under `on` and `set`) and children; strings become text. */
function make(name, { set = {}, on = {}, ...properties } = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  for (const [key, value] of Object.entries(set)) element.setAttribute(key, value);
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// -- talking to the server ------------------------------------------------------------------------------

const underway = new Map();

/** Ask the server. A later request of the same kind takes the place of an earlier one (null then). */
async function call(name, data) {
  underway.get(name)?.abort();
  const controller = new AbortController();
  underway.set(name, controller);
  try {
    const response = await fetch(`api/${name}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(data),
      signal: controller.signal,
    });
    const found = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
    if (!response.ok) throw new Error(found.error ?? `the server answered ${response.status}`);
    return found;
  } catch (error) {
    if (error.name === "AbortError") return null;
    if (error instanceof TypeError) throw new Error("the server does not answer: is sage-rag serve still running?");
    throw error;
  }
}

/** Run a request of one side of the page, and show there how it went. */
async function working(side, words, work) {
  const status = $(`${side}-status`);
  const problem = $(`${side}-problem`);
  status.textContent = words;
  status.classList.add("busy");
  problem.hidden = true;
  try {
    const said = await work();
    if (said === null) return; // a later request is under way
    status.textContent = said;
  } catch (error) {
    status.textContent = "";
    problem.textContent = error.message;
    problem.hidden = false;
  }
  status.classList.remove("busy");
}

function later(work, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds);
  };
}

// -- tabs -----------------------------------------------------------------------------------------------

const tabs = [...document.querySelectorAll('[role="tab"]')];

function choose(tab) {
  for (const other of tabs) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", String(chosen));
    other.tabIndex = chosen ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = !chosen;
  }
}

for (const [i, tab] of tabs.entries()) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length];
    choose(next);
    next.focus();
  });
}

// -- cutting --------------------------------------------------------------------------------------------

let info = null;

const number = (id) => Number($(id).value);
const unless = (value, none) => (value === none ? null : value);

function cutSettings() {
  return {
    model: $("model").value,
    strategy: $("strategy").value,
    threshold: number("threshold"),
    target_tokens: $("topic").checked ? "topic" : unless(number("target_tokens"), 0),
    max_tokens: unless(number("max_tokens"), 0),
    min_tokens: unless(number("min_tokens"), -1),
  };
}

function showCutSettings(found = null) {
  const byDefault = (name) => (found ? `by default: ${found[name]}` : "by default");
  $("threshold-value").textContent = number("threshold").toFixed(2);
  const paper = $("strategy").value === "threshold";
  $("topic").disabled = paper;
  $("target_tokens").disabled = paper || $("topic").checked;
  const target = $("topic").checked ? "by topic" : number("target_tokens") || "by default";
  $("target_tokens-value").textContent = paper ? "not with this strategy" : target;
  $("max_tokens-value").textContent = number("max_tokens") || byDefault("max_tokens");
  $("min_tokens-value").textContent = number("min_tokens") >= 0 ? number("min_tokens") : byDefault("min_tokens");
  for (const id of ["threshold", "target_tokens", "max_tokens", "min_tokens"])
    $(id).setAttribute("aria-valuetext", $(`${id}-value`).textContent);
}

function cut() {
  const text = $("text").value;
  if (!text.trim()) {
    $("splits").replaceChildren();
    $("cut-status").textContent = "Pick a document, or paste a text.";
    return;
  }
  working("cut", "Cutting", async () => {
    const found = await call("segment", { text, settings: cutSettings() });
    if (!found) return null;
    showCutSettings(found);
    $("splits").replaceChildren(...found.chunks.flatMap((chunk, i) => chunkNodes(chunk, i, found.threshold)));
    $("cut-legend").hidden = false;
    $("cut-code").hidden = false;
    $("cut-code").querySelector("pre").textContent = found.code;
    return `${found.summary}.`;
  });
}

const cutSoon = later(cut, 120);

function chunkNodes(chunk, i, threshold) {
  const text = make("div", { className: "text", dir: "auto" });
  for (const piece of chunk.pieces) {
    if (piece.same !== null) {
      const weak = piece.same < threshold;
      const title = `kept together, P(same) ${piece.same.toFixed(3)}`;
      text.append(make("span", { className: weak ? "join weak" : "join", title }, piece.same.toFixed(2)));
    }
    text.append(piece.text);
  }
  const header = make(
    "header",
    {},
    make("span", {}, `chunk ${i + 1}`),
    make("span", {}, `characters ${chunk.start}–${chunk.end}`),
    make("span", {}, `${chunk.tokens} tokens`),
  );
  const body = make("div", { className: `chunk c${(i % COLOURS) + 1}` }, header, text);
  return chunk.cut === null ? [body] : [make("div", { className: "snip" }, chunk.cut), body];
}

async function pickDocument() {
  const id = $("document").value;
  if (!id) {
    $("text").value = "";
    cut();
    return;
  }
  await working("cut", "Reading", async () => {
    const found = await call("document", { id });
    if (!found) return null;
    $("text").value = found.text;
    return `${found.name} was read.`;
  });
  cutSoon();
}

function resetCut() {
  const { segmenter } = info.settings;
  $("model").value = segmenter.model ?? "default";
  $("strategy").value = segmenter.strategy ?? "optimal";
  $("threshold").value = info.settings.threshold;
  const sizes = { sentence: 35, passage: 80, section: 250 };
  $("topic").checked = segmenter.target_tokens === "topic";
  $("target_tokens").value = $("topic").checked ? 0 : sizes[segmenter.target_tokens] ?? segmenter.target_tokens ?? 0;
  $("max_tokens").value = segmenter.max_tokens ?? 0;
  $("min_tokens").value = segmenter.min_tokens ?? -1;
  showCutSettings();
  cut();
}

// -- asking ---------------------------------------------------------------------------------------------

const PARAMETERS = {
  FixedK: { name: "k", label: "Keep", min: 1, max: 60, step: 1, value: 7 },
  Gradient: { name: "gradient", label: "Cut where a score is at most this share of the one before", min: 0, max: 1, step: 0.01, value: 0.3 },
  ExpectedF: { name: "beta", label: "How much more recall counts (beta)", min: 0.2, max: 10, step: 0.2, value: 4 },
  RelativeToTop: { name: "share", label: "Share of the best score", min: 0, max: 1, step: 0.01, value: 0.4 },
  TopP: { name: "p", label: "Share of all scores", min: 0.01, max: 1, step: 0.01, value: 0.9 },
  Threshold: { name: "value", label: "Least score", min: -1, max: 1, step: 0.01, value: 0.2 },
};

let ranking = null;

function rule() {
  const name = $("rule").value;
  if (name === "auto") return info.settings.rule?.rule && !PARAMETERS[info.settings.rule.rule] ? info.settings.rule : "auto";
  const parameter = PARAMETERS[name];
  return parameter ? { rule: name, [parameter.name]: number("parameter") } : { rule: name };
}

function showParameter(value = null) {
  const parameter = PARAMETERS[$("rule").value];
  $("parameter-field").hidden = !parameter;
  if (!parameter) return;
  const { label, min, max, step } = parameter;
  $("parameter-label").textContent = label;
  Object.assign($("parameter"), { min, max, step });
  $("parameter").value = value ?? parameter.value;
}

function askSettings() {
  return {
    reranker: $("reranker").value,
    context: $("context").checked,
    candidates: number("candidates"),
    rule: rule(),
    min_k: unless(number("min_k"), -1),
    max_k: unless(number("max_k"), 0),
  };
}

function showAskSettings() {
  $("candidates-value").textContent = $("candidates").value;
  $("parameter-value").textContent = $("parameter").value;
  $("min_k-value").textContent = number("min_k") >= 0 ? $("min_k").value : "as the rule has it";
  $("max_k-value").textContent = number("max_k") || "no limit";
  for (const id of ["candidates", "parameter", "min_k", "max_k"])
    $(id).setAttribute("aria-valuetext", $(`${id}-value`).textContent);
}

function search() {
  const question = $("question").value.trim();
  if (!question) {
    $("ask-status").textContent = "Write a question first.";
    return;
  }
  working("ask", "Searching", async () => {
    const found = await call("search", { question, settings: askSettings() });
    if (!found) return null;
    ranking = found;
    showRanking();
    return `${found.selection.cut} of ${found.selection.candidates} candidates kept: ${found.selection.reason}.`;
  });
}

const searchSoon = later(() => ranking && search(), 250);

function showRanking() {
  const { candidates, selection, code } = ranking;
  $("ranking").hidden = false;
  $("reason").textContent = `${selection.cut} of ${selection.candidates} kept: ${selection.reason}.`;
  $("ask-code").querySelector("pre").textContent = code;
  $("cut-at").max = Math.max(candidates.length, 1);
  showCut(selection.cut);
}

/** Draw everything that depends on where the ranking is cut. */
function showCut(cut) {
  const { candidates, top_k: topK } = ranking;
  $("cut-at").value = cut;
  $("cut-at-value").textContent = `${cut} of ${candidates.length}`;
  $("cut-at").setAttribute("aria-valuetext", `${cut} of ${candidates.length} kept`);
  $("curve").replaceChildren(curve(candidates, cut));
  const tokens = (rows) => rows.reduce((sum, row) => sum + row.tokens, 0);
  const kept = tokens(candidates.slice(0, cut));
  const plain = tokens([...candidates].sort((a, b) => b.similarity - a.similarity).slice(0, topK));
  const against = plain ? `${kept >= plain ? "+" : "−"}${Math.abs(Math.round((100 * kept) / plain - 100))}% against plain top-${topK}` : "";
  $("tiles").replaceChildren(
    tile("passages", `${cut} of ${candidates.length}`, "kept of the candidates"),
    tile("tokens of context", kept.toLocaleString("en"), against),
  );
  const rows = candidates.map((candidate, i) => rowNode(candidate, i < cut));
  if (cut < rows.length) rows.splice(cut, 0, make("li", { className: "cutline" }, `cut: ${cut} kept`));
  $("rows").replaceChildren(...rows);
}

function tile(name, value, note) {
  return make("div", { className: "tile" }, make("div", { className: "note" }, name), make("strong", {}, value), make("div", { className: "note" }, note));
}

function scoreText(score) {
  if (score === null) return "none";
  return score !== 0 && Math.abs(score) < 0.001 ? score.toExponential(1) : score.toFixed(3);
}

const WIDTH = 640;
const HEIGHT = 250;
const LEFT = 54;
const RIGHT = 16;
const TOP = 30;
const BOTTOM = 214;

function curve(candidates, cut) {
  const scores = candidates.map((candidate) => candidate.score ?? 0);
  const high = Math.max(...scores, 0) * 1.06 || 1;
  const low = Math.min(...scores, 0);
  const x = (rank) => LEFT + ((rank - 0.5) / Math.max(candidates.length, 1)) * (WIDTH - LEFT - RIGHT);
  const y = (score) => BOTTOM - ((score - low) / (high - low || 1)) * (BOTTOM - TOP);
  const label = `Scores of ${candidates.length} candidates by rank, ${cut} of them kept`;
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  picture.append(draw("rect", { class: "bg", width: "100%", height: "100%" }));
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const value = low + share * (high - low) * 0.94;
    picture.append(
      draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      draw("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, value.toPrecision(2)),
    );
  }
  const step = [1, 2, 5, 10, 20, 50].find((s) => candidates.length / s <= 13) ?? 100;
  for (let rank = step; rank <= candidates.length; rank += step)
    picture.append(draw("text", { x: x(rank), y: BOTTOM + 20, "text-anchor": "middle" }, String(rank)));
  const points = scores.map((score, i) => `${x(i + 1).toFixed(1)},${y(score).toFixed(1)}`);
  if (cut) {
    const path = `M${x(1)},${BOTTOM}L${points.slice(0, cut).join("L")}L${x(cut)},${BOTTOM}Z`;
    picture.append(draw("path", { class: "area", d: path }));
  }
  picture.append(draw("polyline", { class: "line", points: points.join(" ") }));
  candidates.forEach(({ named_by: sources }, i) => {
    for (const { name, rank } of sources.filter((by) => by.rank !== null && by.rank !== i + 1)) {
      const [from, to] = [rank, i + 1].map((r) => [x(r), y(scores[r - 1])]);
      const [middle, top] = [(from[0] + to[0]) / 2, Math.max(12, Math.min(from[1], to[1]) - 40)];
      const link = draw("path", { class: "link", d: `M${from}Q${middle},${top} ${to}` });
      link.append(draw("title", {}, `the chunk of rank ${rank} names the document of rank ${i + 1} (${name})`));
      picture.append(link);
    }
  });
  scores.forEach((score, i) => {
    const dot = draw("circle", { class: i < cut ? "dot kept" : "dot", cx: x(i + 1), cy: y(score), r: scores.length > 40 ? 3 : 4.5 });
    dot.append(draw("title", {}, `rank ${i + 1}: ${scoreText(candidates[i].score)}, ${i < cut ? "kept" : "dropped"}`));
    picture.append(dot);
  });
  const at = x(cut + 0.5);
  const end = at > WIDTH - 120;
  picture.append(
    draw("line", { class: "rule", x1: at, x2: at, y1: 10, y2: BOTTOM }),
    draw("text", { class: "rule-label", x: end ? at - 7 : at + 7, y: 20, "text-anchor": end ? "end" : "start" }, `cut: ${cut} kept`),
  );
  return picture;
}

/** The cut was moved by hand: that is a fixed k. */
function moveCut(cut) {
  if (!ranking || cut === Number($("cut-at-value").dataset.cut)) return;
  $("rule").value = "FixedK";
  $("min_k").value = -1;
  $("max_k").value = 0;
  showParameter(cut);
  showAskSettings();
  showCut(cut);
  searchSoon();
}

function pointed(event) {
  const picture = $("curve").firstElementChild;
  if (!ranking || !picture || !(event.buttons & 1)) return;
  const box = picture.getBoundingClientRect();
  const share = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
  const count = ranking.candidates.length;
  moveCut(Math.min(Math.max(Math.round(share * count), 1), count));
}

function rowNode(candidate, kept) {
  const filled = make("span");
  filled.style.width = `${Math.round(100 * candidate.share)}%`;
  const summary = make(
    "summary",
    { className: "row" },
    make("span", { className: "num" }, String(candidate.rank)),
    make("span", { className: "num" }, scoreText(candidate.score)),
    make("span", { className: "meter", set: { "aria-hidden": "true" } }, filled),
    make("span", { className: "num" }, `${candidate.tokens} tok`),
    make("span", { className: "clip", title: candidate.place }, candidate.place),
    make("span", { className: "clip", dir: "auto" }, candidate.text),
  );
  const details = [`cosine ${candidate.similarity.toFixed(3)}`];
  if (candidate.own !== null) details.unshift(`own score ${scoreText(candidate.own)}`);
  for (const vote of candidate.votes)
    details.push(`the chunk ${vote.where} it (rank ${vote.rank}, own score ${scoreText(vote.score)}) vouches with weight ${ranking.weight}`);
  for (const by of candidate.named_by)
    details.push(`${by.rank === null ? "the question" : `the chunk of rank ${by.rank}`} names its document (${by.name}), and vouches`);
  const full = make(
    "div",
    { className: "full" },
    candidate.headings.length ? make("p", { className: "note", dir: "auto" }, candidate.headings.join(" › ")) : null,
    make("div", { className: "text", dir: "auto" }, candidate.text),
    make("ul", { className: "note" }, ...details.map((words) => make("li", {}, words))),
  );
  return make("li", { className: kept ? "keep" : "drop" }, make("details", {}, summary, full));
}

// -- the page -------------------------------------------------------------------------------------------

for (const button of document.querySelectorAll(".copy"))
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("pre");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // to be copied by hand
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });

$("cut-form").addEventListener("submit", (event) => {
  event.preventDefault();
  cut();
});
$("ask-form").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
$("document").addEventListener("change", pickDocument);
$("text").addEventListener("input", later(cut, 500));
$("cut-reset").addEventListener("click", resetCut);
for (const id of ["strategy", "model", "threshold", "target_tokens", "topic", "max_tokens", "min_tokens"])
  $(id).addEventListener("input", () => {
    showCutSettings();
    cutSoon();
  });
for (const id of ["reranker", "context", "candidates", "parameter", "min_k", "max_k"])
  $(id).addEventListener("input", () => {
    showAskSettings();
    searchSoon();
  });
$("rule").addEventListener("input", () => {
  showParameter();
  showAskSettings();
  searchSoon();
});
$("cut-at").addEventListener("input", () => moveCut(number("cut-at")));
$("curve").addEventListener("pointerdown", pointed);
$("curve").addEventListener("pointermove", pointed);
$("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey) return;
  event.preventDefault();
  search();
});

async function begin() {
  try {
    info = await call("info", {});
  } catch (error) {
    $("about").textContent = error.message;
    return;
  }
  const { store, settings } = info;
  $("about").textContent = store
    ? `${store.documents.toLocaleString("en")} documents, ${store.chunks.toLocaleString("en")} chunks, ${store.embedder}; sage-rag ${info.version}`
    : info.problem;
  for (const found of info.documents)
    $("document").append(make("option", { value: found.id }, `${found.name} (${found.chunks})`));
  $("model").replaceChildren(...info.models.map((name) => make("option", { value: name }, name)));
  $("reranker").replaceChildren(...info.rerankers.map((name) => make("option", { value: name }, name)));
  $("reranker").value = settings.reranker;
  $("context").checked = settings.context;
  $("candidates").value = settings.candidates;
  const name = typeof settings.rule === "string" ? settings.rule : settings.rule.rule;
  $("rule").value = { auto: "auto", gradient: "Gradient" }[name] ?? (PARAMETERS[name] ? name : "auto");
  showParameter(PARAMETERS[name] ? settings.rule[PARAMETERS[name].name] : null);
  $("min_k").value = settings.min_k ?? -1;
  $("max_k").value = settings.max_k ?? 0;
  showAskSettings();
  if (!store) {
    $("ask-problem").textContent = info.problem;
    $("ask-problem").hidden = false;
  }
  const first = info.documents.find((found) => found.chunks <= MOST_CHUNKS_AT_FIRST);
  if (first) $("document").value = first.id;
  resetCut();
  if (first) await pickDocument();
  document.body.dataset.ready = "true";
}

begin();
