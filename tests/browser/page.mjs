// The web page as people use it, in a browser, inside 'cosy dev --web'. Prints a line for each part that
// holds; the first one that does not ends it with what was wrong.
//
//   cosy dev -N 3 --web -- node page.mjs [FOLDER FOR PICTURES]
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { dir, hold, lookFor, open, part, place, run, sameIn, shot, submit } from "./common.mjs";

async function main() {
  const EVIL = "<img src=x onerror=window.hacked=1>\u202e\"'&";
  // Nobody's name turns around what stands behind it.
  const SHOWN = EVIL.replace("\u202e", "\ufffd");
  // Starts that were told and came true, so that there is something to tell of them.
  submit("-t", "3", "-N", "3", "--exclusive", "--", "sleep", "2");
  submit("-t", "3", "-N", "1", "--exclusive", "-a", "1-30", "--", "true");
  submit("-t", "60", "-N", "1", "--exclusive", "-a", "1-24", "--", "true");
  run("cstat");
  run("scontrol", "update", "PartitionName=main", "MaxTime=3-00:00:00");
  const until = Date.now() + 120000;
  while (run("cstat", "--no-header", "--format", "id", "--state", "waiting,starting,running,completing") !== "") assert.ok(Date.now() < until, "they do not end");
  const talks = run("csub", "-t", "5", "-J", "talks", "--output", "talks.out", "--", "sh", "-c",
      "echo first; printf '\\033[31m<i>red</i>\\033[0m\\n'; until [ -e go ]; do sleep 0.1; done; echo last").split(" ").at(-1);
  const evil = submit("-t", "30", "-N", "1", "-J", EVIL, "--", "sleep", "600");
  submit("-t", "45", "-N", "2", "-J", "relax", "--", "sleep", "600");
  const sweep = [1, 2, 3, 4, 5, 6].map((n) => submit("-t", String(n * 25), "-N", String((n % 3) + 1), "-J", `sweep-${n}`, "--", "sleep", "60"));
  const held = submit("-t", "10", "--hold", "-J", "later", "--", "true");
  run("cresv", "book", "-N", "2", "-t", "2h", "--at", "now+20h", "--name", "class");
  const page = await open("light"), dark = await open("dark");
  const origin = new URL(page.url()).origin;

  await part("log in, and see how things stand", async () => {
    await page.locator(".figure", { hasText: "Cores in use" }).waitFor();
    await page.locator(".figure", { hasText: "Running" }).locator("b", { hasText: /^[1-9]/ }).waitFor();
    await page.getByRole("button", { name: "Week" }).click();
    await page.getByRole("cell", { name: /^main/ }).waitFor();
    await shot(page, "now-light");
  });

  await part("names are text, whatever is in them", async () => {
    await place(page, "Jobs");
    await page.getByRole("cell", { name: SHOWN, exact: true }).waitFor();
    await shot(page, "jobs-light");
    await page.getByRole("link", { name: evil, exact: true }).click();
    await page.getByRole("heading", { level: 1, name: new RegExp(`Job ${evil}`) }).waitFor();
    await place(page, "Plan");
    await page.locator("svg a.x, svg rect.bar").first().waitFor();
    await page.getByRole("button", { name: "As a table" }).click();
    await page.getByRole("cell", { name: SHOWN, exact: true }).waitFor();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("main img").count(), 0);
  });

  await part("the plan is zoomed, moved, and leads to a job", async () => {
    await page.getByRole("button", { name: "As a table" }).click();
    await page.getByRole("button", { name: "6 h", exact: true }).click();
    await page.waitForURL(/span=21600000/);
    await page.getByRole("button", { name: "Less time" }).click();
    await page.waitForURL(/span=10800000/);
    await page.getByRole("group", { name: /^Plan/ }).focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForURL(/from=\d+/);
    await page.keyboard.press("Home");
    await page.getByRole("button", { name: "6 h", exact: true }).click();
    const bar = page.getByRole("link", { name: /Job \d+ "relax"/ });
    await bar.locator("rect").first().hover();
    await page.locator(".tip", { hasText: "relax" }).waitFor();
    await shot(page, "plan-light");
    await bar.locator("rect").first().click();
    await page.getByRole("heading", { name: /relax/ }).waitFor();
  });

  await part("a job is changed by a form, and what limits it is told", async () => {
    await page.goto(`${origin}/jobs/${held}`);
    await page.getByRole("heading", { name: "Shares and limits" }).waitFor();
    await page.getByRole("button", { name: "Change", exact: true }).click();
    const form = page.getByRole("dialog"), send = form.getByRole("button", { name: "Change", exact: true });
    await send.click();
    await form.getByRole("alert").filter({ hasText: "nothing is other than before" }).waitFor();
    await form.getByLabel("Time limit").fill("soon");
    await send.click();
    await form.getByRole("alert").filter({ hasText: "is no length" }).waitFor();
    await form.getByLabel("Time limit").fill("20m");
    await form.getByLabel("Comment").fill("<b>now</b>");
    await form.getByLabel("Nice").fill("5");
    await form.getByLabel("Start not before").fill("2036-01-02T08:00");
    await lookFor(page, "the form for a change");
    await shot(page, "change-light");
    await send.click();
    await page.getByText("<b>now</b>", { exact: true }).waitFor();
    assert.match(run("cstat", held, "--json"), /"nice": 5/);
    assert.equal(await page.locator("main b b").count(), 0);
  });

  await part("a job is let go, held, cancelled", async () => {
    await page.goto(`${origin}/jobs/${held}`);
    await page.getByText("Held: it does not start before").waitFor();
    await page.getByRole("button", { name: "Release" }).click();
    await page.getByRole("button", { name: "Hold" }).click();
    await page.getByRole("button", { name: "Release" }).waitFor();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Leave it" }).click();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("button", { name: "Cancel the job" }).click();
    await page.locator(".badge", { hasText: "cancelled" }).waitFor();
    assert.match(run("chist", "--format", "state", "--no-header", held), /cancelled/);
  });

  await part("output is followed while it comes", async () => {
    await page.goto(`${origin}/jobs/${talks}`);
    const text = page.getByLabel("Output", { exact: true });
    await text.filter({ hasText: "first\n<i>red</i>" }).waitFor();
    run("touch", "go");
    await text.filter({ hasText: "last" }).waitFor();
    await page.getByText("to its end").waitFor();
  });

  await part("a job is submitted by the form", async () => {
    await place(page, "Submit");
    await page.getByText(/^Would start/).waitFor();
    await page.getByRole("textbox", { name: "Name" }).fill("it's mine");
    await page.getByRole("textbox", { name: "How long at most" }).fill("5m");
    await page.getByRole("textbox", { name: "Folder" }).fill(dir);
    await page.getByRole("textbox", { name: "Commands" }).fill("echo from the form");
    await page.getByRole("region", { name: "The script" }).filter({ hasText: "--time=00:05:00" }).waitFor();
    await shot(page, "submit-light");
    await page.getByRole("button", { name: "Submit" }).click();
    await page.getByRole("heading", { level: 1, name: "it's mine" }).waitFor();
    await place(page, "Submit");
    await page.getByRole("textbox", { name: "Memory of a node" }).fill("much");
    await page.getByRole("button", { name: "Submit" }).click();
    await page.getByRole("alert").filter({ hasText: "'much' is no amount of memory" }).waitFor();
  });

  await part("time is quoted, held, confirmed and given back", async () => {
    await place(page, "Book time");
    const cell = (day, hour) => page.locator(`.cell[data-day="${day}"][data-hour="${hour}"]`);
    await cell(2, 9).filter({ hasText: /\d/ }).waitFor();
    await shot(page, "book-light");
    const from = await cell(2, 9).boundingBox(), to = await cell(2, 11).boundingBox();
    await page.mouse.move(from.x + 10, from.y + 5);
    await page.mouse.down();
    await page.mouse.move(to.x + 12, to.y + 8, { steps: 6 });
    await page.mouse.up();
    await page.getByText("It delays nobody.").waitFor();
    assert.equal(await page.getByRole("textbox", { name: "How long" }).inputValue(), "3h");
    await shot(page, "quote-light");
    await page.getByRole("button", { name: "Hold it" }).click();
    await page.getByText("Nobody else gets it for").waitFor();
    await page.locator(".countdown", { hasText: /\d/ }).waitFor();
    assert.match(run("cresv", "list"), /held/);
    await page.getByRole("button", { name: "Confirm", exact: true }).click();
    await page.getByRole("status").filter({ hasText: "Confirmed" }).waitFor();
    await page.getByRole("row", { name: /confirmed.*3 h/ }).waitFor();
    await page.getByRole("row", { name: /confirmed.*3 h/ }).getByRole("button", { name: "Give back" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Give it back" }).click();
    await page.getByRole("row", { name: /cancelled.*3 h/ }).waitFor();
    // The same without a mouse.
    await cell(3, 10).focus();
    await page.keyboard.press("Shift+ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByText("It delays nobody.").waitFor();
    assert.equal(await page.getByRole("textbox", { name: "How long" }).inputValue(), "2h");
    // What makes no sense is told.
    await page.getByRole("textbox", { name: "How long" }).fill("soon");
    await page.getByRole("button", { name: "See the prices" }).click();
    await page.getByRole("alert").filter({ hasText: "is no length" }).waitFor();
  });

  await part("a job goes into a booking", async () => {
    await place(page, "Book time");
    await page.getByRole("row", { name: /class/ }).getByRole("link", { name: "Submit into it" }).click();
    await page.getByText("Into the booking class").waitFor();
    const script = page.getByRole("region", { name: "The script" });
    await script.filter({ hasText: /--reservation=\d+/ }).waitFor();
    await script.filter({ hasText: "--nodes=2" }).waitFor();
    await page.getByText(/^Waits for the booking/).waitFor();
    await page.getByRole("textbox", { name: "Name" }).fill("lesson");
    await page.getByRole("textbox", { name: "Folder" }).fill(dir);
    await lookFor(page, "a job into a booking");
    await shot(page, "into-light");
    await page.getByRole("button", { name: "Submit" }).click();
    await page.getByRole("heading", { level: 1, name: "lesson" }).waitFor();
    await page.getByText("Reservation", { exact: true }).waitFor();
    await page.goto(`${origin}/submit?reservation=4711`);
    await page.getByRole("alert").filter({ hasText: "There is no booking 4711" }).waitFor();
  });

  await part("a workflow is planned out of a file, and booked", async () => {
    await place(page, "Workflows");
    await page.getByRole("link", { name: "Plan a workflow" }).click();
    const file = page.getByLabel("The workflow file"), plan = page.getByRole("button", { name: "Plan it" });
    const whole = await file.inputValue();
    await file.fill("[workflow]\nname = 'night'\n[tasks.one]\nrun = 'true'\nestimat = '1m'\n");
    await plan.click();
    await page.getByRole("alert").filter({ hasText: "workflow.toml:5: task 'one': there is no key 'estimat': is 'estimate' meant?" }).waitFor();
    await file.fill(whole);
    await plan.click();
    await page.getByText(/^Starts at .*deadline/).waitFor();
    await page.getByRole("group", { name: "4 tasks" }).waitFor();
    await lookFor(page, "a planned workflow");
    await shot(page, "flow-plan-light");
    await page.getByRole("button", { name: "Book it" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Book it" }).click();
    await page.getByRole("heading", { level: 1, name: "night" }).waitFor();
    await page.getByText("Slots", { exact: true }).waitFor();
    await lookFor(page, "a workflow");
    await shot(page, "flow-light");
    await sameIn(dark, page, (one) => one.getByText("Slots", { exact: true }), "flow");
    // A file that is dropped or chosen.
    await page.goto(`${origin}/workflows/plan`);
    await page.getByLabel("Or choose a file").setInputFiles({ name: "chosen.toml", mimeType: "text/plain", buffer: Buffer.from("[tasks.a]\nscript = 'x.sh'\nestimate = '1m'\n") });
    await plan.click();
    await page.getByRole("alert").filter({ hasText: "chosen.toml:1: task 'a': 'script' names a file" }).waitFor();
    await page.getByLabel("Or choose a file").setInputFiles({ name: "large.toml", mimeType: "text/plain", buffer: Buffer.alloc(1100000, "#") });
    await page.getByRole("alert").filter({ hasText: "large.toml has more than 1024 KiB" }).waitFor();
  });

  await part("nodes are drained and taken into service again", async () => {
    await place(page, "Nodes");
    await page.getByRole("row", { name: /^n3/ }).getByRole("button", { name: "Drain" }).click();
    await page.getByLabel("Why").fill("a <b>fan</b>");
    await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
    await page.getByRole("row", { name: /^n3.*drain/ }).getByText("a <b>fan</b>").waitFor();
    await page.getByRole("row", { name: /^n3/ }).getByRole("button", { name: "Resume" }).click();
    await page.getByRole("row", { name: /^n3/ }).getByRole("button", { name: "Drain" }).waitFor();
    await page.getByRole("link", { name: "n3", exact: true }).click();
    await page.getByRole("heading", { name: "Its machine" }).waitFor();
    await page.getByText("nothing wrong").waitFor();
    await page.getByRole("region", { name: "Events of the node" }).getByRole("cell", { name: "drained", exact: true }).waitFor();
    await lookFor(page, "a node");
    await shot(page, "node-light");
    await sameIn(dark, page, (one) => one.getByRole("region", { name: "Events of the node" }), "node");
    await place(page, "Administration");
    await page.getByRole("cell", { name: "drained", exact: true }).first().waitFor();
    await page.getByText("All 3 nodes take jobs.").waitFor();
    await page.getByRole("region", { name: "Health of nodes" }).getByRole("link", { name: "n3", exact: true }).waitFor();
    await shot(page, "administration-light");
  });

  await part("nobody is kept out, in light and in dark", async () => {
    for (const [name, heading, ready] of [
      ["Submit", "Submit", "pre"],
      ["Now", "Now", ".figure"], ["Plan", "Plan", "svg .bar"], ["Jobs", "Jobs", "tbody tr"], ["Book time", "Book time", ".cell"],
      ["Workflows", "Workflows", "tbody tr"], ["Nodes", "Nodes", "tbody tr"], ["Administration", "Administration", "tbody tr"],
    ]) {
      for (const [one, colours] of [[page, "light"], [dark, "dark"]]) {
        await place(one, name, heading);
        await one.locator(ready).first().waitFor();
        await lookFor(one, `${name}, ${colours}`);
      }
      await shot(page, `${name.toLowerCase().replace(/ .*/, "")}-light`);
      await shot(dark, `${name.toLowerCase().replace(/ .*/, "")}-dark`);
    }
    await page.goto(`${origin}/jobs/${evil}`);
    await page.getByText("Asked for", { exact: true }).waitFor();
    await lookFor(page, "a job");
    await page.goto(`${origin}/jobs/${sweep[5]}`);
    await page.getByText(/^Planned to start/).waitFor();
    await page.getByText(/^starts predicted .* ahead in queue main held (\d\d) of the latest \1 times/).waitFor();
    await page.getByRole("region", { name: "Limits" }).getByRole("row", { name: /queue main.*time limit of a job.*3 d/ }).waitFor();
    await lookFor(page, "a job that waits");
    await page.getByRole("heading", { name: "Shares and limits" }).waitFor();
    await shot(page, "job-light");
    await sameIn(dark, page, (one) => one.getByRole("heading", { name: "Shares and limits" }), "job");
    await dark.context().close();
  });

  await part("the controller goes and comes back", async () => {
    await place(page, "Now");
    await page.locator(".figure").first().waitFor();
    const pid = run("pgrep", "-f", `cosyd --config ${dir}/cosy.toml`).split("\n")[0];
    process.kill(Number(pid), "SIGKILL");
    await page.locator("#away", { hasText: "nothing is lost" }).waitFor();
    await shot(page, "away-light");
    const again = spawn(`${dir}/bin/cosyd`, ["--config", `${dir}/cosy.toml`], { stdio: "ignore" });
    await page.locator("#away").waitFor({ state: "hidden" });
    await place(page, "Jobs");
    await page.getByRole("cell", { name: SHOWN, exact: true }).waitFor();
    again.unref();
  });

  await part("who may no longer is out, and comes in with a token", async () => {
    run("cosy", "token", "--revoke");
    await page.getByRole("heading", { name: "Log in" }).waitFor();
    await lookFor(page, "the login");
    await shot(page, "login-light");
    await page.getByLabel("Token").fill("nonsense");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("alert").filter({ hasText: "the token is no good" }).waitFor();
    // Of the second of the revocation none is good.
    const second = Math.floor(Date.now() / 1000);
    while (Math.floor(Date.now() / 1000) === second) await new Promise((done) => setTimeout(done, 20));
    await page.getByLabel("Token").fill(run("cosy", "token"));
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("heading", { name: "Jobs" }).waitFor();
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { name: "Log in" }).waitFor();
  });

  const asked = await (await fetch(`${new URL(page.url()).origin}/api/v1/me`)).json();
  assert.equal(asked.error.code, "unauthenticated");
}

await hold(main);
