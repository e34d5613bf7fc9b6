//! One script, and for each question a Lua that runs it.

use crate::constants::{FLOATS, NUMBERS};
use crate::description::{Description, Kind, Slot};
use crate::{records, settings};
use cosy_model::policy::UserAccounts;
use cosy_rules::protocol::{Answer, LogLevel, LogLine, Question, QueueRow};
use cosy_slurm::error_numbers::{ERRORS, sentence};
use cosy_slurm::sentences::UNSPECIFIED;
use cosy_slurm::submit::times;
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};
use serde::Deserialize;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Instructions of one question. What no instruction counts ends with the controller's patience.
const INSTRUCTIONS: u64 = 50_000_000;
/// How often they are counted.
const COUNTED: u32 = 10_000;
/// Most lines for the user, and for the log.
const LINES: usize = 200;
/// Most bytes of one.
const LINE_BYTES: usize = 1000;
/// Most variables that a script sets.
const VARIABLES: usize = 1000;

/// A script, and how much memory there is.
#[derive(Clone, Debug, Deserialize)]
pub struct Load {
    /// Its file, to be named in messages.
    pub path: String,
    /// Its text, in UTF-8.
    pub text: String,
    /// Address space of this program, in bytes: Lua may have half of it.
    pub memory: usize,
}

/// A script that was loaded.
#[derive(Debug)]
pub struct Machine {
    script: Load,
    name: String,
}

/// What a script does beside running.
#[derive(Debug, Default)]
struct Traces {
    told: RefCell<Vec<String>>,
    log: RefCell<Vec<LogLine>>,
    /// Lines of the loading are told once, when the script is handed over.
    quiet: Cell<bool>,
}

/// The request that is judged.
#[derive(Debug, Default)]
struct Request {
    description: RefCell<Description>,
    set_variables: RefCell<BTreeMap<String, Option<String>>>,
    /// What was asked.
    question: Question,
}

/// A Lua in which the script is loaded.
struct Loaded {
    lua: Lua,
    traces: Rc<Traces>,
    prelude: Prelude,
}

/// What the host has of the prelude.
struct Prelude {
    /// Makes `job_desc`.
    description: Function,
    /// Makes names of a partition raise an error.
    left_out: Function,
}

impl Machine {
    /// Takes a script over; the answer says whether it can be run.
    pub fn load(script: Load) -> (Self, Answer) {
        let name = script
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let machine = Self { script, name };
        let traces = Rc::new(Traces::default());
        let failed = machine.run(&traces, None).err();
        let answer = Answer {
            log: traces.log.take(),
            failed,
            ..Answer::default()
        };
        (machine, answer)
    }

    /// Judges a request.
    pub fn judge(&self, question: Question) -> Answer {
        let traces = Rc::new(Traces::default());
        traces.quiet.set(true);
        let judged = self.judged(question, &traces);
        let mut answer = judged.unwrap_or_else(|why| Answer {
            failed: Some(why),
            ..Answer::default()
        });
        answer.log = traces.log.take();
        answer
    }

    /// Makes a Lua and runs the script in it, which defines its functions.
    fn run(&self, traces: &Rc<Traces>, accounts: Option<UserAccounts>) -> Result<Loaded, String> {
        let libraries = StdLib::TABLE
            | StdLib::STRING
            | StdLib::UTF8
            | StdLib::MATH
            | StdLib::COROUTINE
            | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::default()).map_err(|e| told(&e))?;
        lua.set_memory_limit(self.script.memory / 2)
            .map_err(|e| told(&e))?;
        count_instructions(&lua).map_err(|e| told(&e))?;
        let prelude = prelude(&lua, traces, accounts).map_err(|e| told(&e))?;
        let chunk = lua
            .load(&self.script.text)
            .set_name(format!("@{}", self.name))
            .set_mode(ChunkMode::Text);
        let returned: Value = chunk.eval().map_err(|e| told(&e))?;
        if let Some(number) = number(&lua, returned)
            && number != 0
        {
            return Err(format!("{} returns {number} when it is loaded", self.name));
        }
        for name in ["slurm_job_submit", "slurm_job_modify"] {
            let there: Value = lua.globals().get(name).map_err(|e| told(&e))?;
            if !there.is_function() {
                return Err(format!("{} has no function {name}", self.name));
            }
        }
        Ok(Loaded {
            lua,
            traces: traces.clone(),
            prelude,
        })
    }

    fn judged(&self, question: Question, traces: &Rc<Traces>) -> Result<Answer, String> {
        let loaded = self.run(traces, question.accounts.clone())?;
        traces.quiet.set(false);
        let before = records::job_desc(&question);
        let request = Rc::new(Request {
            description: RefCell::new(before.clone()),
            question,
            ..Request::default()
        });
        let question = &request.question;
        let returned = loaded.call(question, &request).map_err(|e| told(&e))?;
        // Finalizers of the script run now, and a script whose finalizers never end is one that
        // does not answer this question.
        drop(loaded);
        let remarks = traces.told.take();
        if returned != 0 {
            return Ok(refusal(returned, remarks));
        }
        let after = request.description.take();
        let set = settings::fields(&before, &after, question.asked.is_some());
        let other_script = before.text("script") != after.text("script");
        let set = match set {
            Ok(_)
                if other_script
                    && (question.script.is_none() || after.text("script").is_none()) =>
            {
                Err("job_desc.script is set, and only a batch script can be changed".to_owned())
            }
            set => set,
        };
        let set = match set {
            Ok(set) => set,
            Err(why) => {
                return Ok(Answer {
                    refuse: Some(format!("{}: {why}: tell an administrator", self.name)),
                    ..Answer::default()
                });
            }
        };
        let script = after.text("script").map(str::to_owned);
        Ok(Answer {
            set,
            environment: request.set_variables.take(),
            script: script.filter(|text| before.text("script") != Some(text)),
            remarks,
            ..Answer::default()
        })
    }
}

impl Loaded {
    /// Calls the function of the script; what it returns.
    fn call(&self, question: &Question, request: &Rc<Request>) -> mlua::Result<i64> {
        let lua = &self.lua;
        let description = self.description(request)?;
        let queues = question.queues.as_deref().unwrap_or_default();
        let partitions = partitions(lua, queues, &self.prelude.left_out)?;
        let uid = question.fields.get("uid").and_then(|uid| uid.as_i64());
        let uid = uid.unwrap_or_default();
        let globals = lua.globals();
        let returned: Value = if question.asked.is_some() {
            let record = lua.create_table()?;
            for (name, slot) in records::job_record(question).slots() {
                record.raw_set(name, value(lua, slot)?)?;
            }
            let modify: Function = globals.get("slurm_job_modify")?;
            modify.call((description, record, partitions, uid))?
        } else {
            let submit: Function = globals.get("slurm_job_submit")?;
            submit.call((description, partitions, uid))?
        };
        Ok(match number(lua, returned) {
            Some(number) => number,
            None => {
                self.traces
                    .log(LogLevel::Info, "a function returned no number: the request goes on");
                0
            }
        })
    }

    /// `job_desc`, as a table of the script.
    fn description(&self, request: &Rc<Request>) -> mlua::Result<Table> {
        let lua = &self.lua;
        let of = request.clone();
        let get = lua.create_function(move |lua, name: String| {
            let description = of.description.borrow();
            let slot = description.get(&name);
            let slot = slot.or_else(|| records::of_policy(&of.question, &description, &name));
            slot.map_or(Ok(Value::Nil), |slot| value(lua, &slot))
        })?;
        let (of, traces) = (request.clone(), self.traces.clone());
        let set = lua.create_function(move |lua, (name, value): (String, Value)| {
            let Some(kind) = Description::kind(&name) else {
                let text = format!("job_desc.{name} cannot be set, and is passed over");
                traces.log(LogLevel::Error, &text);
                return Ok(());
            };
            let slot = slot(lua, &name, kind, value)?;
            of.description.borrow_mut().set(&name, slot);
            Ok(())
        })?;
        let of = request.clone();
        let variable = lua.create_function(move |_, name: String| {
            let set = of.set_variables.borrow().get(&name).cloned();
            let asked = || {
                of.question
                    .environment
                    .as_ref()
                    .and_then(|all| all.get(&name).cloned())
            };
            Ok(set.unwrap_or_else(asked))
        })?;
        let (of, traces) = (request.clone(), self.traces.clone());
        let set_variable =
            lua.create_function(move |_, (name, value): (String, Option<String>)| {
                if of.question.environment.is_none() {
                    traces.log(LogLevel::Info, "job_desc.environment is there for batch jobs only");
                    return Ok(());
                }
                let mut all = of.set_variables.borrow_mut();
                if all.len() >= VARIABLES && !all.contains_key(&name) {
                    return Err(mlua::Error::runtime(format!(
                        "more than {VARIABLES} variables are set"
                    )));
                }
                all.insert(name, value);
                Ok(())
            })?;
        self.prelude
            .description
            .call((get, set, variable, set_variable))
    }
}

impl Traces {
    fn log(&self, level: LogLevel, text: &str) {
        let mut log = self.log.borrow_mut();
        if !self.quiet.get() && log.len() < LINES {
            let text = text.chars().take(LINE_BYTES / 4).collect();
            log.push(LogLine { level, text });
        }
    }

    /// A line for the user, or several.
    fn tell(&self, text: &str) {
        let mut told = self.told.borrow_mut();
        for line in text.split('\n') {
            if !self.quiet.get() && told.len() < LINES {
                told.push(line.chars().take(LINE_BYTES / 4).collect());
            }
        }
    }
}

/// Counts instructions of the script and of all its coroutines.
fn count_instructions(lua: &Lua) -> mlua::Result<()> {
    let counted = Cell::new(0u64);
    let triggers = HookTriggers::new().every_nth_instruction(COUNTED);
    lua.set_global_hook(triggers, move |_, _| {
        counted.set(counted.get() + u64::from(COUNTED));
        match counted.get() > INSTRUCTIONS {
            true => Err(mlua::Error::runtime(format!("stopped after {INSTRUCTIONS} instructions"))),
            false => Ok(VmState::Continue),
        }
    })
}

/// What scripts find.
fn prelude(
    lua: &Lua,
    traces: &Rc<Traces>,
    accounts: Option<UserAccounts>,
) -> mlua::Result<Prelude> {
    let constants = lua.create_table()?;
    for (name, number) in NUMBERS {
        constants.raw_set(*name, *number)?;
    }
    for (name, number) in FLOATS {
        constants.raw_set(name, number)?;
    }
    for (number, name, _) in ERRORS {
        constants.raw_set(*name, *number)?;
    }
    let host = lua.create_table()?;
    host.raw_set("constants", constants)?;
    let of = traces.clone();
    let log = lua.create_function(move |_, (level, text): (String, mlua::LuaString)| {
        let level = match level.as_str() {
            "error" => LogLevel::Error,
            "debug" => LogLevel::Debug,
            _ => LogLevel::Info,
        };
        of.log(level, &text.to_string_lossy());
        Ok(())
    })?;
    host.raw_set("log", log)?;
    let of = traces.clone();
    let tell = lua.create_function(move |_, text: mlua::LuaString| {
        of.tell(&text.to_string_lossy());
        Ok(())
    })?;
    host.raw_set("tell", tell)?;
    let minutes = lua.create_function(|_, text: String| {
        let span = times::limit(&text);
        Ok(span.map_or(crate::constants::NO_VAL, |span| match span.is_unlimited() {
            true => crate::constants::INFINITE,
            false => span.secs() / 60,
        }))
    })?;
    host.raw_set("minutes", minutes)?;
    let priority = lua.create_function(move |_, name: String| {
        Ok(match records::qos_priority(accounts.as_ref(), &name) {
            Ok(priority) => (priority, None),
            Err(why) => (None, Some(why)),
        })
    })?;
    host.raw_set("qos_priority", priority)?;
    let chunk = lua.load(include_str!("prelude.lua")).set_name("=prelude");
    let (description, left_out) = chunk.call(host)?;
    Ok(Prelude {
        description,
        left_out,
    })
}

fn partitions(lua: &Lua, queues: &[QueueRow], left_out: &Function) -> mlua::Result<Table> {
    let all = lua.create_table()?;
    let names = lua.create_table()?;
    for name in records::LEFT_OUT {
        names.raw_set(name, true)?;
    }
    for row in queues {
        let one = lua.create_table()?;
        for (name, slot) in records::partition(row) {
            one.raw_set(name, value(lua, &slot)?)?;
        }
        if row.lists_left_out {
            left_out.call::<()>((&one, &names))?;
        }
        all.raw_set(row.name.as_str(), one)?;
    }
    Ok(all)
}

fn value(lua: &Lua, slot: &Slot) -> mlua::Result<Value> {
    Ok(match slot {
        Slot::Text(text) => Value::String(lua.create_string(text)?),
        Slot::Number(n) => Value::Integer(*n),
        Slot::Float(n) => Value::Number(*n),
        Slot::List(all) => {
            let list = lua.create_table()?;
            for (at, text) in (0i64..).zip(all) {
                list.raw_set(at, text.as_str())?;
            }
            Value::Table(list)
        }
    })
}

/// What a script sets, read as Slurm reads it: numbers are texts, and texts of digits numbers.
fn slot(lua: &Lua, name: &str, kind: Kind, value: Value) -> mlua::Result<Slot> {
    let given = value.type_name();
    let wrong = |wanted| {
        let text = format!("job_desc.{name} is {wanted}, and is set to a value of type {given}");
        mlua::Error::runtime(text)
    };
    match kind {
        Kind::Text => {
            let text = lua.coerce_string(value)?.ok_or_else(|| wrong("a text"))?;
            let text = text.to_str().map_err(|_| wrong("a text of UTF-8"))?;
            Ok(Slot::Text(text.to_owned()))
        }
        Kind::Number => {
            if let Value::Integer(n) = value {
                return Ok(Slot::Number(n));
            }
            let n = lua.coerce_number(value)?.ok_or_else(|| wrong("a number"))?;
            match n.abs() < 9.0e18 {
                true => Ok(Slot::Number(n.trunc() as i64)),
                false if n.is_nan() => Err(wrong("a number")),
                false => Ok(Slot::Float(n)),
            }
        }
    }
}

/// A number that a function returned.
fn number(lua: &Lua, value: Value) -> Option<i64> {
    match value {
        Value::Integer(n) => Some(n),
        Value::Number(_) | Value::String(_) => {
            let n = lua.coerce_number(value).ok().flatten()?;
            // What is no whole number is no success either.
            Some(if n == 0.0 {
                0
            } else {
                (n.trunc() as i64).max(1)
            })
        }
        _ => None,
    }
}

/// The user is told what the script has said, else what Slurm says.
fn refusal(returned: i64, said: Vec<String>) -> Answer {
    let number = u32::try_from(returned).ok();
    let sentence = number.and_then(sentence).unwrap_or(UNSPECIFIED);
    let text = match said.is_empty() {
        true => sentence.to_owned(),
        false => said.join("\n"),
    };
    Answer {
        refuse: Some(text),
        number,
        ..Answer::default()
    }
}

/// The first line of an error: those behind it are the stack.
fn told(error: &mlua::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let line = line.strip_prefix("runtime error: ").unwrap_or(line);
    let line = line.strip_prefix("syntax error: ").unwrap_or(line);
    line.chars().take(500).collect()
}

#[cfg(test)]
mod tests;
