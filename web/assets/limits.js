// The shares of a job's user, and the limits of its queue, account and quality of service.
import { get } from "./api.js";
import { h, put, table } from "./dom.js";
import { keep } from "./main.js";
import { local, seconds } from "./words.js";

const UNITS = { "amount min": " × 1 min", MiB: " MiB" };
const amount = (n, unit) => (unit === "min" ? seconds(n * 60) : `${n.toLocaleString()}${UNITS[unit] || ""}`);

/** How much of a limit is in use, as a bar and in words. */
function used(row) {
  if (row.used === null) return "";
  const share = row.most > 0 ? Math.min(100, (row.used / row.most) * 100) : 100;
  return [amount(row.used, row.unit), h("div", { class: "meter" }, h("i", { class: share > 90 && "much", style: { width: `${share}%` } }))];
}

/** A card of them in `place`, until it is stopped. */
export function limits(place, id) {
  const asked = keep(async (signal) => {
    let told;
    try {
      told = await get(`/jobs/${encodeURIComponent(id)}/limits`, signal);
    } catch (e) {
      if (e.status === 0 || e.status === 503) throw e;
      // It is over, or not theirs to see.
      put(place);
      asked.stop();
      return;
    }
    const whose = [`${told.user}`, told.account && `account ${told.account}`, told.qos && `quality of service ${told.qos}`, `queue ${told.queue}`].filter(Boolean).join(", ");
    put(place, h("div", { class: "card" }, h("h2", {}, "Shares and limits"), h("p", { class: "soft" }, whose),
      told.standing.length > 0 ? h("ul", { class: "lines" }, told.standing.map((line) => h("li", {}, local(line))))
        : h("p", {}, "Its queue orders by no shares, or nothing of its user's is known."),
      told.enforced === false && h("p", {}, "Limits of accounts and qualities of service bind nobody here, so nothing is counted for them: the site does not enforce them."),
      table([
        { title: "Limit of", cell: (r) => r.of }, { title: "Limit", cell: (r) => r.limit }, { title: "At most", right: true, cell: (r) => amount(r.most, r.unit) }, { title: "In use", right: true, cell: used },
      ], told.limits, { caption: "Limits", empty: "No limit of a queue, an account or a quality of service is set for it." })));
  }, 20000);
  return asked;
}
