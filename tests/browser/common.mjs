// What the scripts for the browser share: a browser that is logged in, parts that are told, pictures.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
export const dir = process.env.COSY_DEV_DIR;
const pictures = process.argv[2];
export const run = (name, ...args) => execFileSync(name, args, { encoding: "utf8", cwd: dir }).trim();
export const submit = (...args) => run("csub", "--output", "/dev/null", ...args).split(" ").at(-1);
const PATIENCE = 30000;

export const browser = await chromium.launch({
  executablePath: process.env.COSY_BROWSER || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"],
});
export const faults = [];

export async function open(colorScheme) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, colorScheme, locale: "en-GB" });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.on("pageerror", (e) => faults.push(`error in the page: ${e.message}`));
  page.on("console", (m) => {
    // A status that is no success is written there by the browser itself.
    if (m.type() === "error" && !m.text().startsWith("Failed to load resource")) faults.push(`console: ${m.text()}`);
  });
  await page.goto(run("cosy", "web"));
  await page.getByRole("heading", { name: "Now" }).waitFor();
  return page;
}

let at = "";
export async function part(name, work) {
  at = name;
  await work();
  assert.deepEqual(faults, [], name);
  console.log(`ok ${name}`);
}

/** Another page that shows the same, to be looked at only. */
export async function sameIn(dark, page, ready, name) {
  await dark.goto(page.url());
  await ready(dark).waitFor();
  await lookFor(dark, `${name}, dark`);
  await shot(dark, `${name}-dark`);
}

export async function shot(page, name) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  // What is told in the corner goes by itself.
  await page.waitForFunction(() => !document.querySelector("#told .note"));
  await page.screenshot({ path: `${pictures}/${name}.png` });
}

export const place = async (page, name, heading = name) => {
  await page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
};

export async function lookFor(page, where) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const grave = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  assert.deepEqual(grave.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).slice(0, 3).join(" ")}`), [], `${where} keeps people out`);
}

/** Runs the script, tells the first part that does not hold, and ends the process. */
export async function hold(main) {
  let code = 0;
  try {
    await main();
    console.log("all parts hold");
  } catch (e) {
    console.log(`not ok ${at}\n${e.stack || e}`);
    for (const fault of faults) console.log(fault);
    for (const context of browser.contexts()) {
      const [one] = context.pages();
      if (one) console.log(`it showed ${one.url()}\n${await one.locator("main").innerText().catch(() => "")}`);
    }
    code = 1;
  }
  await browser.close();
  process.exit(code);
}
