// What forms for jobs have in common: queues and accounts to choose among, and how large a job is, in the words of a
// quote and of Slurm's REST interface.
import { get } from "./api.js";
import { h, put } from "./dom.js";

/** Fills a field with the queues; `chosen` says which is chosen at first. */
export const fillQueues = (select, chosen = (q) => q.default) =>
  get("/queues").then(({ queues }) => put(select, queues.map((q) => h("option", { value: q.name, selected: chosen(q) }, q.name))));

/** A field with the accounts that one may charge, once they are known. */
export function accountField(words = (a) => a.name) {
  const usual = () => h("option", { value: "" }, "the usual one");
  const select = h("select", {}, usual());
  get("/accounts").then(({ accounts }) => put(select, usual(), accounts.map((a) => h("option", { value: a.name }, words(a))))).catch(() => {});
  return select;
}

/** The question for a quote: {seconds, nodes, tasks, cores, gpus, mib}, in a queue. */
export const quoteAsk = (w, queue, most) => ({
  length: w.seconds, nodes: w.nodes, tasks: w.tasks, cores_per_task: w.cores, gpus_per_node: w.gpus, most,
  ...(queue && { queue }), ...(w.mib && { memory_mib_per_node: w.mib }),
});

/** The same as fields of a job in Slurm's REST interface. */
export function restFields(w, queue) {
  const number = (n) => ({ set: true, infinite: false, number: n });
  return {
    nodes: String(w.nodes), tasks: w.tasks, cpus_per_task: w.cores, time_limit: number(Math.ceil(w.seconds / 60)),
    ...(queue && { partition: queue }), ...(w.mib && { memory_per_node: number(w.mib) }), ...(w.gpus && { tres_per_node: `gres/gpu:${w.gpus}` }),
  };
}
