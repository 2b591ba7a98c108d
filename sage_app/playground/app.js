// The playground's page. What is found comes as markup that the server's renderer has made, all text escaped.
"use strict";

const $ = (id) => document.getElementById(id);
const number = (id) => Number($(id).value);
const unless = (value, none) => (value === none ? null : value);
// The page begins with a document that is cut at once.
const MOST_CHUNKS_AT_FIRST = 200;

function option(value, words) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = words;
  return made;
}

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
    if (reply.html) {
      $(`${side}-shown`).innerHTML = reply.html;
      $(`${side}-code`).hidden = false;
      $(`${side}-code`).querySelector("pre").textContent = reply.code;
    }
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
    $("cut-shown").replaceChildren();
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
    return reply.summary;
  });
}

const cutSoon = later(cut, 120);
const cutLater = later(cut, 500);

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

function search() {
  const question = $("question").value.trim();
  if (!question) {
    $("ask-status").textContent = "Write a question first.";
    return;
  }
  const settings = {
    context: $("context").checked,
    candidates: number("candidates"),
    rule: rule(),
    min_context_tokens: unless(number("min_context_tokens"), -1),
    min_k: unless(number("min_k"), -1),
    max_k: unless(number("max_k"), 0),
  };
  request("ask", "Searching", "search", { question, settings }, (reply) => reply.summary);
}

const searchSoon = later(() => $("ask-shown").hasChildNodes() && search(), 250);

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
  for (const { id, name, chunks } of info.documents) $("document").append(option(id, `${name} (${chunks})`));
  $("model").replaceChildren(...info.models.map((name) => option(name, name)));
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
