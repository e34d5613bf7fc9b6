// Questions to the server. Who is logged in, and the word that shows that a change comes from here, are
// kept from the first answer on.

export const session = { me: null };

/** Why something was not answered. */
export class Problem extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function ask(method, path, body, signal) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && session.me?.csrf) headers["X-Cosy-Csrf"] = session.me.csrf;
  let answer;
  try {
    answer = await fetch(`/api/v1${path}`, {
      method, headers, signal, credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Problem(0, "away", "the server of this page does not answer");
  }
  const told = await answer.json().catch(() => ({}));
  if (answer.ok) {
    document.dispatchEvent(new CustomEvent("cosy-answer"));
    return told;
  }
  const error = told.error || {};
  const problem = new Problem(answer.status, error.code || "unknown", error.message || `status ${answer.status}`);
  if (problem.status === 401) document.dispatchEvent(new CustomEvent("cosy-logged-out"));
  throw problem;
}

export const get = (path, signal) => ask("GET", path, undefined, signal);
export const post = (path, body = {}) => ask("POST", path, body);
export const patch = (path, body) => ask("PATCH", path, body);
export const del = (path, body) => ask("DELETE", path, body);

/** Submits a script as Slurm's REST interface takes it: the number of the job, and what the site says to it. */
export async function submitted({ script, job }) {
  const answer = await fetch("/slurm/v0.0.44/job/submit", {
    method: "POST", credentials: "same-origin",
    headers: { "Content-Type": "application/json", Accept: "application/json", ...(session.me?.csrf ? { "X-Cosy-Csrf": session.me.csrf } : {}) },
    body: JSON.stringify({ script, job: { environment: ["PATH=/usr/local/bin:/usr/bin:/bin"], ...job } }),
  }).catch(() => {
    throw new Problem(0, "away", "the server of this page does not answer");
  });
  const told = await answer.json().catch(() => ({}));
  const error = told.errors?.[0];
  if (!answer.ok || error || !told.job_id) {
    const words = error?.description || told.error?.message || error?.error || `status ${answer.status}`;
    throw new Problem(answer.status, "refused", words);
  }
  return { job: told.job_id, notes: [told.job_submit_user_msg, ...(told.warnings || []).filter((w) => w.source !== "script").map((w) => w.description)].filter(Boolean) };
}

/** A path's parameters, without those that are empty. */
export function query(parameters) {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) all.set(name, value);
  }
  const text = all.toString();
  return text ? `?${text}` : "";
}

/** Whether the controller or this server is away, so that the same may be answered later. */
export const isAway = (e) => e instanceof Problem && (e.status === 0 || e.status === 503 || e.status === 502);
