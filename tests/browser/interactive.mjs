// Shells and programs of jobs in a browser, inside 'cosy dev --web'.
//
//   cosy dev -N 2 --web -- node interactive.mjs [FOLDER FOR PICTURES]
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { hold, lookFor, open, part, place, run, shot } from "./common.mjs";

const PROGRAM = fileURLToPath(new URL("./program.py", import.meta.url));
const seen = (page, text) => page.locator(".screen", { hasText: text }).waitFor();

async function main() {
  const page = await open("dark");

  await part("a shell begins, is typed into, and shows what programs draw", async () => {
    await place(page, "Interactive");
    await page.getByText("It would begin at once.").waitFor();
    await lookFor(page, "interactive");
    await shot(page, "interactive-dark");
    await page.getByRole("button", { name: "Begin" }).click();
    await page.locator(".screen").waitFor();
    await page.keyboard.type("PS1='> '; stty size; echo \"$((6*7)) <b>not bold</b> $COSY_JOB_ID\"\n");
    await seen(page, /42 <b>not bold<\/b> \d+/);
    await page.keyboard.type("printf '\\033[1;31mred\\033[0m \\033]0;a title\\007\\n'\n");
    await page.locator(".screen .t-f1.t-b", { hasText: "red" }).waitFor();
    await page.getByText("Title: a title").waitFor();
    await page.keyboard.type("sleep 600\n");
    await page.locator(".screen > div", { hasText: /^> sleep 600$/ }).waitFor();
    await page.keyboard.press("Control+c");
    // What is typed before the terminal has taken it is thrown away with the rest.
    await seen(page, "^C");
    await page.keyboard.type("echo inter''rupted\n");
    await seen(page, "interrupted");
    await shot(page, "shell-dark");
    await lookFor(page, "a shell");
  });

  await part("the terminal has the size of its window, and keeps what left it", async () => {
    await page.setViewportSize({ width: 1000, height: 700 });
    await page.keyboard.type("clear; sleep 1; stty size; seq 300\n");
    // The line that was typed has the number too.
    await page.locator(".screen > div", { hasText: /^300$/ }).waitFor();
    await page.keyboard.press("Shift+PageUp");
    await page.getByText("lines above the last ones").waitFor();
    await page.keyboard.type("\n");
    await page.keyboard.type("clear; echo \"$(stty size)\" there\n");
    const size = await page.locator(".screen > div", { hasText: /^\d+ \d+ there/ }).first().textContent();
    const [lines, columns] = size.split(" ").map(Number);
    assert.ok(lines > 10 && columns > 60 && columns < 130, size);
    const shown = await page.locator(".screen > div").count();
    assert.equal(shown, lines);
  });

  await part("a shell is found again, and gives the machine back at its end", async () => {
    await page.reload();
    await seen(page, "there");
    const [job] = page.url().match(/\d+$/);
    await page.locator(".keys").focus();
    await page.keyboard.type("exit 3\n");
    await page.getByText("The shell is over: it has ended with code 3. The machine is given back.").waitFor();
    await page.getByText(/The job cancelled/).waitFor();
    assert.match(run("cstat", job), /cancelled/);
  });

  await part("a program of a job is opened under a name of its own", async () => {
    const job = run("csub", "-t", "10", "--mpi", "none", "-o", "program.out", "--", "python3", PROGRAM).split(" ").at(-1);
    await page.goto(`${new URL(page.url()).origin}/interactive/${job}`);
    const row = page.getByRole("row", { name: /python3/ });
    await row.waitFor();
    await shot(page, "programs-dark");
    const [tab] = await Promise.all([page.waitForEvent("popup"), row.getByRole("button", { name: "Open" }).click()]);
    await tab.getByText("over the socket").waitFor();
    const origin = new URL(tab.url()).origin;
    assert.match(origin, new RegExp(`^http://j${job}-\\d+\\.localhost:\\d+$`));
    assert.equal(await tab.evaluate(() => window.opener), null);
    const heard = await tab.evaluate(async () => (await fetch("/away")).json());
    assert.equal(heard.cookie, "mine=1", "it learns nothing of the page's own cookie");
    assert.match(heard.host, /^localhost:\d+$/);
    assert.equal(await tab.evaluate(async () => (await fetch("/x", { method: "POST", body: "words" })).text()), "heard words");
    // It is nobody on the page, and other pages are nobody there.
    const page_ = new URL(page.url()).origin;
    const tried = await tab.evaluate(async (to) => fetch(`${to}/api/v1/me`, { credentials: "include" }).then(() => "read", () => "refused"), page_);
    assert.equal(tried, "refused");
    const bare = await fetch(`${origin.replace(/j\d+-\d+\.localhost/, "127.0.0.1")}/`, { headers: { Host: new URL(origin).host } });
    assert.ok(bare.status === 403 || bare.status === 200);
    const cookies = await tab.context().cookies(origin);
    const own = cookies.find((c) => c.name === "cosy-app");
    assert.ok(own.httpOnly && own.sameSite === "Lax");
    run("ccancel", job);
    await tab.waitForTimeout(500);
  });
}

await hold(main);
