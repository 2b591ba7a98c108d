// The playground's page. Text of documents and models is put there as text, never as markup.
"use strict";

const $ = (id) => document.getElementById(id);
const number = (id) => Number($(id).value);
const unless = (value, none) => (value === none ? null : value);
const COLORS = 4;
// The page begins with a document that is cut at once.
const MOST_CHUNKS_AT_FIRST = 200;

/** Give an element attributes and children; strings become text. */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}
const make = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const draw = (name, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// -- talking to the server ------------------------------------------------------------------------------

const underway = {};

/** Ask the server for one side of the page. A later request of a side takes the place of an earlier one. */
async function request(side, words, name, data, show) {
  underway[side]?.abort();
  const { signal } = (underway[side] = new AbortController());
  const [status, problem] = [$(`${side}-status`), $(`${side}-problem`)];
  status.textContent = words;
  status.classList.add("busy");
  problem.hidden = true;
  try {
    const headers = { "content-type": "application/json" };
    const response = await fetch(`api/${name}`, { method: "POST", headers, body: JSON.stringify(data), signal });
    const reply = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
    if (!response.ok) throw new Error(reply.error);
    status.textContent = show(reply);
  } catch (error) {
    if (error.name === "AbortError") return;
    const gone = error instanceof TypeError; // what fetch throws
    status.textContent = "";
    problem.textContent = gone ? "the server does not answer: is sage-rag serve still running?" : error.message;
    problem.hidden = false;
  }
  status.classList.remove("busy");
}

function later(work, milliseconds) {
  let timer = 0;
  const start = () => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds);
  };
  start.cancel = () => clearTimeout(timer);
  return start;
}

// -- settings -------------------------------------------------------------------------------------------

let info = null;
let limits = {}; // what the segmenter takes where nothing is said, once it has said so

const PARAMETERS = {
  FixedK: { name: "k", label: "Keep", min: 1, max: 60, step: 1, value: 7 },
  Gradient: { name: "gradient", label: "Cut where a score is at most this share of the one before", min: 0, max: 1, step: 0.01, value: 0.3 },
  RelativeToTop: { name: "share", label: "Share of the best score", min: 0, max: 1, step: 0.01, value: 0.4 },
  Threshold: { name: "value", label: "Least score", min: -1, max: 1, step: 0.01, value: 0.2 },
};

const paper = () => $("strategy").value === "threshold";
const byDefault = (name) => (name in limits ? `by default: ${limits[name]}` : "by default");
const BESIDE_SLIDERS = {
  threshold: (value) => value.toFixed(2),
  target_tokens: (value) => (paper() ? "not with this strategy" : $("topic").checked ? "by topic" : value || "by default"),
  max_tokens: (value) => value || byDefault("max_tokens"),
  min_tokens: (value) => (value >= 0 ? value : byDefault("min_tokens")),
  candidates: String,
  parameter: String,
  min_context_tokens: (value) => (value >= 0 ? value : "by default: 250"),
  min_k: (value) => (value >= 0 ? value : "the rule's own"),
  max_k: (value) => value || "no limit",
};

function showSettings() {
  $("topic").disabled = paper();
  $("target_tokens").disabled = paper() || $("topic").checked;
  for (const [id, words] of Object.entries(BESIDE_SLIDERS)) {
    $(`${id}-value`).textContent = words(number(id));
    $(id).setAttribute("aria-valuetext", $(`${id}-value`).textContent);
  }
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

function rule() {
  const name = $("rule").value;
  const parameter = PARAMETERS[name];
  if (parameter) return { rule: name, [parameter.name]: number("parameter") };
  const own = info.settings.selection.rule; // of a settings file; the page cannot show every rule
  return own.rule && !PARAMETERS[own.rule] ? own : "auto";
}

// -- cutting --------------------------------------------------------------------------------------------

function cut() {
  const text = $("text").value;
  if (!text.trim()) {
    $("splits").replaceChildren();
    $("cut-status").textContent = "Pick a document, or paste a text.";
    return;
  }
  const settings = {
    model: $("model").value,
    strategy: $("strategy").value,
    threshold: number("threshold"),
    target_tokens: $("topic").checked ? "topic" : unless(number("target_tokens"), 0),
    max_tokens: unless(number("max_tokens"), 0),
    min_tokens: unless(number("min_tokens"), -1),
  };
  request("cut", "Cutting", "segment", { text, settings }, (reply) => {
    limits = reply;
    showSettings();
    $("splits").replaceChildren(...reply.chunks.flatMap((chunk, i) => chunkNodes(chunk, i, reply.threshold)));
    $("cut-legend").hidden = $("cut-code").hidden = false;
    $("cut-code").querySelector("pre").textContent = reply.code;
    return `${reply.summary}.`;
  });
}

const cutSoon = later(cut, 120);
const cutLater = later(cut, 500);

function chunkNodes(chunk, i, threshold) {
  const text = make("div", { class: "text", dir: "auto" });
  for (const { same, text: piece } of chunk.pieces) {
    const title = `kept together, P(same) ${same?.toFixed(3)}`;
    if (same !== null) text.append(make("span", { class: same < threshold ? "join weak" : "join", title }, same.toFixed(2)));
    text.append(piece);
  }
  const about = [`chunk ${i + 1}`, `characters ${chunk.start}–${chunk.end}`, `${chunk.tokens} tokens`];
  const header = make("header", {}, ...about.map((words) => make("span", {}, words)));
  const body = make("div", { class: `chunk c${(i % COLORS) + 1}` }, header, text);
  return chunk.cut === null ? [body] : [make("div", { class: "snip" }, chunk.cut), body];
}

async function pickDocument() {
  const id = $("document").value;
  cutSoon.cancel(); // of the document before: it would end the reading of this one
  if (!id) $("text").value = "";
  else
    await request("cut", "Reading", "document", { id }, (reply) => {
      $("text").value = reply.text;
      return `${reply.name} was read.`;
    });
  cutSoon();
}

function resetCut() {
  const { segmenter, threshold } = info.settings;
  const sizes = { sentence: 35, passage: 80, section: 250, topic: 0 };
  $("model").value = segmenter.model ?? "default";
  $("strategy").value = segmenter.strategy ?? "optimal";
  $("threshold").value = threshold;
  $("topic").checked = segmenter.target_tokens === "topic";
  $("target_tokens").value = sizes[segmenter.target_tokens] ?? segmenter.target_tokens ?? 0;
  $("max_tokens").value = segmenter.max_tokens ?? 0;
  $("min_tokens").value = segmenter.min_tokens ?? -1;
  showSettings();
  cut();
}

// -- asking ---------------------------------------------------------------------------------------------

let ranking = null;

function search() {
  const question = $("question").value.trim();
  if (!question) {
    $("ask-status").textContent = "Write a question first.";
    return;
  }
  const settings = {
    reranker: $("reranker").value,
    context: $("context").checked,
    candidates: number("candidates"),
    rule: rule(),
    min_context_tokens: unless(number("min_context_tokens"), -1),
    min_k: unless(number("min_k"), -1),
    max_k: unless(number("max_k"), 0),
  };
  request("ask", "Searching", "search", { question, settings }, (reply) => {
    ranking = reply;
    const { cut, candidates, reason } = reply.selection;
    $("ranking").hidden = false;
    $("reason").textContent = `${cut} of ${candidates} kept: ${reason}.`;
    $("ask-code").querySelector("pre").textContent = reply.code;
    $("cut-at").max = Math.max(candidates, 1);
    showCut(cut);
    return `${cut} of ${candidates} candidates kept: ${reason}.`;
  });
}

const searchSoon = later(() => ranking && search(), 250);

/** Draw everything that depends on where the ranking is cut. */
function showCut(cut) {
  const { candidates, top_k: topK } = ranking;
  $("cut-at").value = cut;
  $("cut-at-value").textContent = `${cut} of ${candidates.length}`;
  $("cut-at").setAttribute("aria-valuetext", `${cut} of ${candidates.length} kept`);
  $("curve").replaceChildren(curve(candidates, cut));
  const tokens = (rows) => rows.reduce((sum, row) => sum + row.tokens, 0);
  const sent = tokens(candidates.slice(0, cut));
  const plain = tokens([...candidates].sort((a, b) => b.similarity - a.similarity).slice(0, topK));
  const percent = Math.round((100 * sent) / plain - 100);
  const against = plain ? `${percent < 0 ? "−" : "+"}${Math.abs(percent)}% against plain top-${topK}` : "";
  $("tiles").replaceChildren(
    tile("passages", `${cut} of ${candidates.length}`, "kept of the candidates"),
    tile("tokens of context", sent.toLocaleString("en"), against),
  );
  const rows = candidates.map((candidate, i) => rowNode(candidate, i < cut));
  if (cut < rows.length) rows.splice(cut, 0, make("li", { class: "cutline" }, `cut: ${cut} kept`));
  $("rows").replaceChildren(...rows);
}

const note = (name, words) => make(name, { class: "note" }, words);
const tile = (name, value, words) => make("div", { class: "tile" }, note("div", name), make("strong", {}, value), note("div", words));

function scoreText(score) {
  if (score === null) return "none";
  return score !== 0 && Math.abs(score) < 0.001 ? score.toExponential(1) : score.toFixed(3);
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 250, 54, 16, 30, 214];

function curve(candidates, cut) {
  const scores = candidates.map((candidate) => candidate.score ?? 0);
  const high = Math.max(...scores, 0) * 1.06 || 1;
  const low = Math.min(...scores, 0);
  const x = (rank) => LEFT + ((rank - 0.5) / Math.max(candidates.length, 1)) * (WIDTH - LEFT - RIGHT);
  const y = (score) => BOTTOM - ((score - low) / (high - low || 1)) * (BOTTOM - TOP);
  const label = `Scores of ${candidates.length} candidates by rank, ${cut} of them kept`;
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  const add = (name, attributes, ...children) => picture.append(draw(name, attributes, ...children));
  add("rect", { class: "bg", width: "100%", height: "100%" });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const value = low + share * (high - low) * 0.94;
    add("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) });
    add("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, value.toPrecision(2));
  }
  const step = [1, 2, 5, 10, 20, 50].find((s) => candidates.length / s <= 13) ?? 100;
  for (let rank = step; rank <= candidates.length; rank += step)
    add("text", { x: x(rank), y: BOTTOM + 20, "text-anchor": "middle" }, String(rank));
  const points = scores.map((score, i) => `${x(i + 1).toFixed(1)},${y(score).toFixed(1)}`);
  if (cut) add("path", { class: "area", d: `M${x(1)},${BOTTOM}L${points.slice(0, cut).join("L")}L${x(cut)},${BOTTOM}Z` });
  add("polyline", { class: "line", points: points.join(" ") });
  candidates.forEach(({ named_by: sources }, i) => {
    for (const { name, rank } of sources.filter((by) => by.rank !== null && by.rank !== i + 1)) {
      const [from, to] = [rank, i + 1].map((r) => [x(r), y(scores[r - 1])]);
      const [middle, top] = [(from[0] + to[0]) / 2, Math.max(12, Math.min(from[1], to[1]) - 40)];
      const title = `the chunk of rank ${rank} names the document of rank ${i + 1} (${name})`;
      add("path", { class: "link", d: `M${from}Q${middle},${top} ${to}` }, draw("title", {}, title));
    }
  });
  scores.forEach((score, i) => {
    const [kind, words] = i < cut ? ["dot kept", "kept"] : ["dot", "dropped"];
    const title = draw("title", {}, `rank ${i + 1}: ${scoreText(candidates[i].score)}, ${words}`);
    add("circle", { class: kind, cx: x(i + 1), cy: y(score), r: scores.length > 40 ? 3 : 4.5 }, title);
  });
  const at = x(cut + 0.5);
  const end = at > WIDTH - 120;
  add("line", { class: "rule", x1: at, x2: at, y1: 10, y2: BOTTOM });
  add("text", { class: "rule-label", x: end ? at - 7 : at + 7, y: 20, "text-anchor": end ? "end" : "start" }, `cut: ${cut} kept`);
  return picture;
}

/** The cut was moved by hand: that is a fixed k. */
function moveCut(cut) {
  $("rule").value = "FixedK";
  $("min_context_tokens").value = -1;
  $("min_k").value = -1;
  $("max_k").value = 0;
  showParameter(cut);
  showSettings();
  showCut(cut);
  searchSoon();
}

function pointed(event) {
  const picture = $("curve").firstElementChild;
  if (!picture || !(event.buttons & 1)) return;
  const box = picture.getBoundingClientRect();
  const share = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
  const count = ranking.candidates.length;
  moveCut(Math.min(Math.max(Math.round(share * count), 1), count));
}

function rowNode(candidate, selected) {
  const filled = make("span", {});
  filled.style.width = `${Math.round(100 * candidate.share)}%`;
  const [rank, tokens] = [String(candidate.rank), `${candidate.tokens} tok`];
  const cell = (words, more = {}) => make("span", { class: "num", ...more }, words);
  const summary = make(
    "summary",
    { class: "row" },
    cell(rank),
    cell(scoreText(candidate.score)),
    cell(filled, { class: "meter", "aria-hidden": "true" }),
    cell(tokens),
    cell(candidate.place, { class: "clip", title: candidate.place }),
    cell(candidate.text, { class: "clip", dir: "auto" }),
  );
  const details = [`cosine ${candidate.similarity.toFixed(3)}`];
  if (candidate.own !== null) details.unshift(`own score ${scoreText(candidate.own)}`);
  for (const vote of candidate.votes)
    details.push(`the chunk ${vote.where} it (rank ${vote.rank}, own score ${scoreText(vote.score)}) vouches with weight ${ranking.weight}`);
  for (const by of candidate.named_by)
    details.push(`${by.rank === null ? "the question" : `the chunk of rank ${by.rank}`} names its document (${by.name}), and vouches`);
  const headings = make("p", { class: "note", dir: "auto" }, candidate.headings.join(" › "));
  const text = make("div", { class: "text", dir: "auto" }, candidate.text);
  const list = make("ul", { class: "note" }, ...details.map((words) => make("li", {}, words)));
  const full = make("div", { class: "full" }, candidate.headings.length ? headings : null, text, list);
  return make("li", { class: selected ? "keep" : "drop" }, make("details", {}, summary, full));
}

// -- the page -------------------------------------------------------------------------------------------

const tabs = [...document.querySelectorAll('[role="tab"]')];

function choose(tab) {
  for (const other of tabs) {
    other.setAttribute("aria-selected", String(other === tab));
    other.tabIndex = other === tab ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = other !== tab;
  }
  return tab;
}

for (const [i, tab] of tabs.entries()) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(tabs[(to + tabs.length) % tabs.length]).focus();
  });
}

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

for (const [form, work] of [["cut-form", cut], ["ask-form", search]])
  $(form).addEventListener("submit", (event) => {
    event.preventDefault();
    work();
  });
$("cut-form").addEventListener("input", ({ target }) => {
  if (target.id === "document") return void pickDocument();
  if (target.id === "text") return cutLater();
  limits = {};
  showSettings();
  cutSoon();
});
$("ask-form").addEventListener("input", ({ target }) => {
  if (target.id === "question") return;
  if (target.id === "rule") showParameter();
  showSettings();
  searchSoon();
});
$("cut-reset").addEventListener("click", resetCut);
$("cut-at").addEventListener("input", () => moveCut(number("cut-at")));
for (const event of ["pointerdown", "pointermove"]) $("curve").addEventListener(event, pointed);
$("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey) return;
  event.preventDefault();
  search();
});

async function begin() {
  await request("cut", "Loading", "info", {}, (reply) => ((info = reply), ""));
  if (!info) return;
  const { store, settings, problem, version } = info;
  const counts = store && `${store.documents.toLocaleString("en")} documents, ${store.chunks.toLocaleString("en")} chunks`;
  $("about").textContent = store ? `${counts}, ${store.embedder}; sage-rag ${version}` : problem;
  for (const { id, name, chunks } of info.documents) $("document").append(make("option", { value: id }, `${name} (${chunks})`));
  for (const id of ["model", "reranker"]) $(id).replaceChildren(...info[`${id}s`].map((name) => make("option", { value: name }, name)));
  $("reranker").value = settings.reranker;
  $("context").checked = settings.context;
  $("candidates").value = settings.candidates;
  const { rule, min_context_tokens: minTokens, min_k: minK, max_k: maxK } = settings.selection;
  const name = rule.rule ?? { gradient: "Gradient" }[rule];
  $("rule").value = PARAMETERS[name] ? name : "auto";
  showParameter(rule[PARAMETERS[name]?.name]);
  $("min_context_tokens").value = minTokens ?? -1;
  $("min_k").value = minK ?? -1;
  $("max_k").value = maxK ?? 0;
  $("ask-problem").textContent = problem;
  $("ask-problem").hidden = !problem;
  const first = info.documents.find((document) => document.chunks <= MOST_CHUNKS_AT_FIRST);
  if (first) $("document").value = first.id;
  resetCut();
  if (first) await pickDocument();
  document.body.dataset.ready = "true";
}

begin();
