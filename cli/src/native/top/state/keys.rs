//! What keys do.

use super::{Over, Page, Prompt, Top};
use crate::native::top::chosen::{Chosen, Confirm};
use crate::native::top::event::Effect;
use crate::native::top::help;
use crate::native::top::job::JobPage;
use crate::native::top::scroll::{Scroll, Step};
use cosy_model::api::JobRef;
use ratatui_termion::termion::event::Key;

/// Characters of what is looked for, at most.
const LONGEST_LINE: usize = 200;

/// The step that a key makes in a list or text.
fn step(key: Key) -> Option<Step> {
    Some(match key {
        Key::Up | Key::Char('k') => Step::Lines(-1),
        Key::Down | Key::Char('j') => Step::Lines(1),
        Key::PageUp | Key::Ctrl('b') => Step::Pages(-1),
        Key::PageDown | Key::Ctrl('f') | Key::Char(' ') => Step::Pages(1),
        Key::Home | Key::Char('g') => Step::First,
        Key::End | Key::Char('G') => Step::Last,
        _ => return None,
    })
}

impl Top {
    pub(super) fn key(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Ctrl('c') => return vec![Effect::Quit],
            Key::Ctrl('z') => return vec![Effect::Suspend],
            Key::Ctrl('l') => return vec![Effect::Redraw],
            _ => {}
        }
        if let Some(prompt) = self.prompt.take() {
            return self.prompted(prompt, key);
        }
        if self.over.is_some() {
            self.over_key(key);
            return Vec::new();
        }
        // What was said has been seen.
        self.said = None;
        let effect = match key {
            Key::Char('q') => Some(Effect::Quit),
            Key::Char('?') | Key::F(1) => {
                self.over = Some(Over::Help(Scroll::default()));
                None
            }
            Key::Char('1') => self.go(Page::Jobs),
            Key::Char('2') => self.go(Page::Nodes),
            Key::Char('3') => self.go(Page::Plan),
            Key::Char('4') => self.go_to_job(),
            Key::Esc => self.back(),
            Key::Char('/') => {
                self.search();
                None
            }
            Key::Char('c') => self.steer(Chosen::cancel),
            Key::Char('h') => self.steer(Chosen::hold_or_release),
            Key::Char('Q') => self.want_quote(),
            key => self.page_key(key),
        };
        effect.into_iter().collect()
    }

    fn page_key(&mut self, key: Key) -> Option<Effect> {
        if let Some(step) = step(key) {
            self.step(step);
            return None;
        }
        match self.page {
            Page::Jobs => self.jobs_key(key),
            Page::Nodes if key == Key::Char('\n') => self.jobs_of_node(),
            Page::Nodes => {}
            Page::Plan => self.plan_key(key),
            Page::Job => return self.job_key(key),
        }
        None
    }

    fn step(&mut self, step: Step) {
        let (height, body) = (self.rows(), self.body());
        match self.page {
            Page::Jobs => self.jobs.step(step, height),
            Page::Nodes => self.nodes.step(step, height),
            Page::Plan => {
                let head = self.plan.lines(body.0, &self.moment.now).0.len();
                let room = (body.0, body.1.saturating_sub(head));
                self.plan.step(step, room, &self.moment.now);
            }
            Page::Job => {
                if let Some(job) = &mut self.job {
                    job.step(step, body, &self.moment.now);
                }
            }
        }
    }

    fn jobs_key(&mut self, key: Key) {
        match key {
            Key::Char('\n') | Key::Right => match self.chosen_ref() {
                Ok(target) => self.open(target),
                Err(why) => self.say(why),
            },
            Key::Char('u') => {
                self.jobs.toggle_users();
                self.refresh.hurry();
            }
            Key::Char('s') => self.jobs.next_sort(self.rows()),
            _ => {}
        }
    }

    /// The jobs that run on the chosen node, of all users.
    fn jobs_of_node(&mut self) {
        let node = self.nodes.chosen().to_owned();
        if !node.is_empty() {
            self.jobs.show_all();
            self.jobs.look_for(&format!("node={node}"), self.rows());
            self.go(Page::Jobs);
        }
    }

    fn plan_key(&mut self, key: Key) {
        match key {
            Key::Char('+' | '=') => self.plan.zoom(true),
            Key::Char('-') => self.plan.zoom(false),
            Key::Left => self.plan.pan(false),
            Key::Right => self.plan.pan(true),
            Key::Char('0') => self.plan.back(),
            _ => return,
        }
        self.refresh.hurry();
    }

    fn job_key(&mut self, key: Key) -> Option<Effect> {
        let job = self.job.as_mut()?;
        match key {
            Key::Char('o' | '\t' | '\n') => job.toggle_output(),
            Key::Char('e') => return job.toggle_stream(),
            Key::Left => return self.back(),
            _ => {}
        }
        None
    }

    /// Shows a page.
    fn go(&mut self, page: Page) -> Option<Effect> {
        if self.page != page {
            self.page = page;
            self.refused = None;
            self.refresh.hurry();
        }
        None
    }

    fn go_to_job(&mut self) -> Option<Effect> {
        match (&self.job, self.chosen_ref()) {
            (Some(_), _) => return self.go(Page::Job),
            (None, Ok(target)) => self.open(target),
            (None, Err(_)) => self.say("choose a job first: Enter opens it".to_owned()),
        }
        None
    }

    /// The job of the chosen line: of several tasks their array.
    fn chosen_ref(&self) -> Result<JobRef, String> {
        let name = self.jobs.chosen();
        let one = name.split("_[").next().unwrap_or_default();
        match one {
            "" => Err("no job is chosen".to_owned()),
            one => one.parse(),
        }
    }

    fn open(&mut self, target: JobRef) {
        if self.job.as_ref().is_none_or(|job| job.target() != target) {
            self.job = Some(JobPage::new(target));
        }
        self.go(Page::Job);
    }

    /// A step back: from the whole output, from a job, from what is looked for, to the jobs.
    fn back(&mut self) -> Option<Effect> {
        let height = self.rows();
        match (self.page, &mut self.job) {
            (Page::Job, Some(job)) if job.is_only_output() => job.toggle_output(),
            (Page::Jobs, _) => {
                self.jobs.look_for("", height);
                self.refresh.hurry();
            }
            (Page::Nodes, _) if !self.nodes.line().is_empty() => self.nodes.look_for("", height),
            (Page::Plan, _) if !self.plan.line().is_empty() => self.plan.look_for(""),
            (Page::Nodes | Page::Plan | Page::Job, _) => return self.go(Page::Jobs),
        }
        None
    }

    fn search(&mut self) {
        let before = match self.page {
            Page::Jobs => self.jobs.line(),
            Page::Nodes => self.nodes.line(),
            Page::Plan => self.plan.line(),
            Page::Job => return,
        };
        let before = before.to_owned();
        self.prompt = Some(Prompt::Search {
            text: before.clone(),
            before,
        });
    }

    fn look_for(&mut self, line: &str) {
        let height = self.rows();
        match self.page {
            Page::Jobs => self.jobs.look_for(line, height),
            Page::Nodes => self.nodes.look_for(line, height),
            Page::Plan => self.plan.look_for(line),
            Page::Job => {}
        }
    }

    /// Asks the user before anything is done to a job.
    fn steer(&mut self, deed: impl Fn(&Chosen) -> Result<Confirm, String>) -> Option<Effect> {
        let chosen = match self.page {
            Page::Jobs => Chosen::of(self.jobs.chosen_row()),
            Page::Job => {
                let table = self.job.as_ref().map(JobPage::table);
                let chosen = table.and_then(|table| Some((Chosen::of((table, 0))?, table.rows)));
                chosen.map(|(chosen, rows)| if rows > 1 { chosen.whole() } else { chosen })
            }
            Page::Nodes | Page::Plan => None,
        };
        match chosen.as_ref().map(deed) {
            Some(Ok(confirm)) => self.prompt = Some(Prompt::Confirm(confirm)),
            Some(Err(why)) => self.say(why),
            None => self.say("choose a job first".to_owned()),
        }
        None
    }

    fn want_quote(&mut self) -> Option<Effect> {
        match (self.page, self.chosen_ref()) {
            (Page::Job, _) => self.quote(),
            (Page::Jobs, Ok(target)) => {
                self.open(target);
                self.quote()
            }
            (Page::Jobs | Page::Nodes | Page::Plan, _) => {
                self.say("choose a job first".to_owned());
                None
            }
        }
    }

    fn prompted(&mut self, prompt: Prompt, key: Key) -> Vec<Effect> {
        match prompt {
            Prompt::Confirm(confirm) => match key {
                Key::Char('y' | 'Y') => {
                    self.say("asked; waiting for the answer".to_owned());
                    vec![Effect::Ask(confirm.ask)]
                }
                _ => {
                    self.say("nothing was changed".to_owned());
                    Vec::new()
                }
            },
            Prompt::Search { text, before } => {
                self.search_key(text, before, key);
                Vec::new()
            }
        }
    }

    fn search_key(&mut self, mut text: String, before: String, key: Key) {
        match key {
            Key::Char('\n') => {
                self.look_for(text.trim());
                self.refresh.hurry();
                return;
            }
            Key::Esc => {
                self.look_for(&before);
                return;
            }
            Key::Backspace => drop(text.pop()),
            Key::Ctrl('u') => text.clear(),
            Key::Char(c) if !c.is_control() && text.chars().count() < LONGEST_LINE => text.push(c),
            _ => {}
        }
        // Words are found as they are typed; conditions go to the controller with Enter.
        if !text.contains('=') && !before.contains('=') {
            self.look_for(&text);
        }
        self.prompt = Some(Prompt::Search { text, before });
    }

    fn over_key(&mut self, key: Key) {
        let body = self.body();
        match (&mut self.over, step(key)) {
            (Some(Over::Help(scroll)), Some(step)) => {
                scroll.turn(step, help::lines(body.0).len(), body.1);
            }
            (Some(Over::Quote(page)), Some(step)) => page.step(step, body, &self.moment.now),
            (_, None) if matches!(key, Key::Esc | Key::Char('q' | '?' | 'Q' | '\n')) => {
                self.over = None;
            }
            (Some(_) | None, _) => {}
        }
    }
}
