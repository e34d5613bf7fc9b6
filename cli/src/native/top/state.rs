//! All that `cosy top` knows: pages, what is asked of the user, and how the controller answers.
//!
//! It knows no clock, no terminal and no controller: it is handed events with their moment, and gives
//! effects. What is seen of it is drawn by [`draw`](crate::native::top::draw).

mod keys;

use crate::native::top::chosen::{Chosen, Confirm};
use crate::native::top::event::{Answer, Ask, Effect, Event, Failure, Got, Moment};
use crate::native::top::job::JobPage;
use crate::native::top::jobs::Jobs;
use crate::native::top::nodes::Nodes;
use crate::native::top::plan::Plan;
use crate::native::top::quote::QuotePage;
use crate::native::top::refresh::Refresh;
use crate::native::top::scroll::Scroll;
use crate::native::top::shape;
use cosy_model::api::JobRef;
use std::time::Duration;

/// Lines around the page: tabs, status, keys.
const AROUND: usize = 3;
/// What was said is seen so long.
const SAID_FOR: Duration = Duration::from_secs(8);

/// How the command was begun.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Between two questions to the controller.
    pub every: Duration,
    /// Colours are welcome.
    pub colour: bool,
    /// Number of the user.
    pub uid: u32,
    /// Jobs of all users.
    pub all: bool,
    /// What is looked for among jobs.
    pub line: String,
    /// Which page is shown first.
    pub page: Page,
    /// The job that is shown first.
    pub job: Option<JobRef>,
}

/// A page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// All jobs.
    Jobs,
    /// All nodes.
    Nodes,
    /// The plan as a chart.
    Plan,
    /// One job.
    Job,
}

/// What lies over a page.
#[derive(Clone, Debug)]
pub enum Over {
    /// What the keys do.
    Help(Scroll),
    /// What a job's shape would cost.
    Quote(QuotePage),
}

/// What is asked of the user in the last line.
#[derive(Clone, Debug)]
pub enum Prompt {
    /// Yes or no.
    Confirm(Confirm),
    /// What is looked for.
    Search {
        /// What is typed.
        text: String,
        /// What was looked for before.
        before: String,
    },
}

/// All that the command knows.
#[derive(Clone, Debug)]
pub struct Top {
    colour: bool,
    size: (u16, u16),
    moment: Moment,
    page: Page,
    jobs: Jobs,
    nodes: Nodes,
    plan: Plan,
    job: Option<JobPage>,
    /// The quote is asked for as soon as the job is known.
    quote_wanted: bool,
    over: Option<Over>,
    prompt: Option<Prompt>,
    refresh: Refresh,
    /// What was said last, and when.
    said: Option<(Duration, String)>,
    /// Why the page has no new answer.
    refused: Option<String>,
}

impl Top {
    /// At the beginning, on a terminal of so many columns and rows.
    pub fn new(settings: Settings, size: (u16, u16), moment: Moment) -> Self {
        let Settings { uid, colour, .. } = settings;
        let page = match settings.job {
            Some(_) => Page::Job,
            None => settings.page,
        };
        Self {
            colour,
            size,
            moment,
            page,
            jobs: Jobs::new(uid, settings.all, settings.line),
            nodes: Nodes::default(),
            plan: Plan::new(uid),
            job: settings.job.map(JobPage::new),
            quote_wanted: false,
            over: None,
            prompt: None,
            refresh: Refresh::new(settings.every),
            said: None,
            refused: None,
        }
    }

    /// Something happens.
    pub fn event(&mut self, moment: Moment, event: Event) -> Vec<Effect> {
        self.moment = moment;
        let mut effects = match event {
            Event::Key(key) => self.key(key),
            Event::Resized(columns, rows) => {
                self.resize((columns, rows));
                Vec::new()
            }
            Event::Ticked => Vec::new(),
            Event::Noted(text) => {
                self.say(text);
                Vec::new()
            }
            Event::Answered(answer) => self.answer(*answer),
            Event::Output(news) => {
                if let Some(job) = &mut self.job {
                    job.output(&news);
                }
                Vec::new()
            }
        };
        if self.refresh.is_due(self.moment.passed) {
            self.refresh.ask(self.moment.passed);
            effects.push(Effect::Ask(self.look()));
        }
        effects
    }

    /// What is asked for the page that is seen.
    fn look(&self) -> Ask {
        match (self.page, &self.job) {
            (Page::Job, Some(job)) => Ask::Job(job.target()),
            (Page::Jobs | Page::Job, _) => self.jobs.ask(),
            (Page::Nodes, _) => Ask::Nodes,
            (Page::Plan, _) => self.plan.ask(&self.moment.now),
        }
    }

    fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        let height = self.rows();
        self.jobs.fit(height);
        self.nodes.fit(height);
    }

    fn answer(&mut self, answer: Answer) -> Vec<Effect> {
        let Answer { ask, got, took } = answer;
        if ask.is_look() {
            let failure = got.as_ref().err();
            self.refresh.answer(self.moment.passed, took, failure);
            self.refused = failure.filter(|f| !f.unreachable).map(|f| f.text.clone());
        }
        match got {
            Ok(got) => self.take(&ask, got),
            Err(failure) => {
                self.fail(&ask, &failure);
                Vec::new()
            }
        }
    }

    fn take(&mut self, ask: &Ask, got: Got) -> Vec<Effect> {
        let height = self.rows();
        match got {
            // What was asked for before something else is shown is not what is looked for now.
            Got::Jobs(listing) if *ask == self.jobs.ask() => self.jobs.take(listing, height),
            Got::Jobs(_) => {}
            Got::Nodes(all) => self.nodes.take(all, height),
            Got::Plan { chart, own } => self.plan.take(chart, own),
            Got::Job { table, told } => {
                let page = self
                    .job
                    .as_mut()
                    .filter(|page| *ask == Ask::Job(page.target()));
                let effect = page.and_then(|page| page.take(*table, told));
                let mut effects: Vec<Effect> = effect.into_iter().collect();
                if self.quote_wanted {
                    effects.extend(self.quote());
                }
                return effects;
            }
            Got::Changed { changed, refused } => {
                let Ask::Change { done, .. } = ask else {
                    return Vec::new();
                };
                self.say(match (refused.first(), changed) {
                    (Some(why), _) => why.clone(),
                    (None, 0) => "nothing was changed".to_owned(),
                    (None, _) => done.clone(),
                });
                self.refresh.hurry();
            }
            Got::Quote(quote) => self.quoted(ask, Ok(quote)),
        }
        Vec::new()
    }

    fn fail(&mut self, ask: &Ask, failure: &Failure) {
        match ask {
            Ask::Job(target) => {
                let page = self.job.as_mut().filter(|page| page.target() == *target);
                if let Some(page) = page.filter(|_| !failure.unreachable) {
                    page.refuse(&failure.text);
                    self.quote_wanted = false;
                }
            }
            Ask::Change { .. } => self.say(failure.text.clone()),
            Ask::Quote { .. } => self.quoted(ask, Err(failure.text.clone())),
            Ask::Jobs(_) | Ask::Nodes | Ask::Plan { .. } => {}
        }
    }

    fn quoted(&mut self, ask: &Ask, answer: Result<Box<cosy_model::reservation::Quote>, String>) {
        if let (Some(Over::Quote(page)), Ask::Quote { of, .. }) = (&mut self.over, ask)
            && page.of() == of
        {
            page.take(answer);
        }
    }

    /// Asks what the shape of the job that is shown would cost.
    fn quote(&mut self) -> Option<Effect> {
        let table = self
            .job
            .as_ref()
            .map(JobPage::table)
            .filter(|table| table.rows > 0);
        let Some(table) = table else {
            self.quote_wanted = true;
            return None;
        };
        self.quote_wanted = false;
        let of = Chosen::of((table, 0)).map_or_else(String::new, |chosen| chosen.name);
        match shape::of(table, 0) {
            Ok(shape) => {
                self.over = Some(Over::Quote(QuotePage::new(&of, shape.left_out)));
                let spec = Box::new(shape.spec);
                Some(Effect::Ask(Ask::Quote { of, spec }))
            }
            Err(why) => {
                self.say(why);
                None
            }
        }
    }

    fn say(&mut self, text: String) {
        self.said = Some((self.moment.passed, text));
    }

    /// Columns and rows of the page.
    pub fn body(&self) -> (usize, usize) {
        let (columns, rows) = self.size;
        (usize::from(columns), usize::from(rows).saturating_sub(AROUND))
    }

    /// Rows of a list below its titles.
    fn rows(&self) -> usize {
        self.body().1.saturating_sub(1)
    }

    /// When it is.
    pub const fn moment(&self) -> &Moment {
        &self.moment
    }

    /// Whether colours are welcome.
    pub const fn colour(&self) -> bool {
        self.colour
    }

    /// The page that is seen.
    pub const fn page(&self) -> Page {
        self.page
    }

    /// The page of jobs.
    pub const fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// The page of nodes.
    pub const fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The page of the plan.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The page of one job.
    pub const fn job(&self) -> Option<&JobPage> {
        self.job.as_ref()
    }

    /// What lies over the page.
    pub const fn over(&self) -> Option<&Over> {
        self.over.as_ref()
    }

    /// What is asked of the user.
    pub const fn prompt(&self) -> Option<&Prompt> {
        self.prompt.as_ref()
    }

    /// There was an answer already.
    pub const fn has_answer(&self) -> bool {
        self.refresh.has_answer()
    }

    /// What the user has to know before anything else.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.refresh.trouble(self.moment.passed);
        trouble.or_else(|| self.refused.clone())
    }

    /// What was said last, for a while.
    pub fn said(&self) -> Option<&str> {
        let (when, text) = self.said.as_ref()?;
        let fresh = self.moment.passed.saturating_sub(*when) < SAID_FOR;
        fresh.then_some(text.as_str())
    }
}

#[cfg(test)]
mod tests;
