//! Pictures of each page, on terminals of several sizes.

use super::draw;
use crate::native::top::event::{Answer, Ask, Event, Failure, Got, Listing, News, Said};
use crate::native::top::sample::{self, answer, moment, noon, top};
use crate::native::top::state::{Page, Top};
use cosy_model::api::Table;
use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;
use ratatui_termion::termion::event::Key;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (120, 40);

fn terminal(top: &Top, (columns, rows): (u16, u16)) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal
        .draw(|frame| draw(top, frame.buffer_mut()))
        .unwrap();
    terminal
}

fn buffer(top: &Top, size: (u16, u16)) -> Buffer {
    terminal(top, size).backend().buffer().clone()
}

fn seen(top: &Top, size: (u16, u16)) -> Vec<String> {
    let text = crate::native::top::painted::text(&buffer(top, size));
    text.lines().map(str::to_owned).collect()
}

/// The page as a snapshot.
macro_rules! picture {
    ($name:literal, $top:expr, $size:expr) => {
        insta::assert_snapshot!($name, terminal($top, $size).backend())
    };
}

fn jobs(size: (u16, u16), listing: Listing) -> Top {
    let mut top = top(Page::Jobs, size);
    let ask = top.jobs().ask();
    top.event(moment(0), Event::Ticked);
    top.event(moment(1), answer(ask, Got::Jobs(listing)));
    top
}

fn nodes(size: (u16, u16), count: usize) -> Top {
    let mut top = top(Page::Nodes, size);
    top.event(moment(0), Event::Ticked);
    top.event(moment(1), answer(Ask::Nodes, Got::Nodes(sample::nodes(count))));
    top
}

fn plan(size: (u16, u16), count: u32) -> Top {
    let mut top = top(Page::Plan, size);
    top.event(moment(0), Event::Ticked);
    let ask = top.plan().ask(&noon());
    top.event(moment(1), answer(ask, sample::plan_answer(count)));
    top
}

fn job(size: (u16, u16), table: Table, lines: usize) -> Top {
    let mut top = top(Page::Job, size);
    top.event(moment(0), Event::Ticked);
    let told = vec!["3 waiting jobs come before it, and it starts when they have".to_owned()];
    let table = Box::new(table);
    top.event(moment(1), answer(Ask::Job("12".parse().unwrap()), Got::Job { table, told }));
    let text: String = (1..=lines)
        .map(|n| format!("line {n} of its output\n"))
        .collect();
    let said = Said::More(text.into_bytes());
    top.event(
        moment(1),
        Event::Output(News {
            path: "/home/ann/cosy-12.out".into(),
            said,
        }),
    );
    top
}

fn press(top: &mut Top, keys: &str) {
    for key in keys.chars() {
        top.event(moment(1), Event::Key(Key::Char(key)));
    }
}

#[test]
fn jobs_few_and_many() {
    picture!("jobs-3", &jobs(SMALL, sample::listing(3)), SMALL);
    let cut = Listing {
        cut: true,
        in_all: Some(104_220),
        ..sample::listing(300)
    };
    let mut top = jobs(LARGE, cut);
    for _ in 0..40 {
        top.event(moment(1), Event::Key(Key::Down));
    }
    picture!("jobs-300", &top, LARGE);
    picture!("jobs-none", &jobs(SMALL, sample::listing(0)), SMALL);
}

#[test]
fn nodes_few_and_many() {
    picture!("nodes-3", &nodes(SMALL, 3), SMALL);
    let mut top = nodes(LARGE, 300);
    top.event(moment(1), Event::Key(Key::End));
    picture!("nodes-300", &top, LARGE);
}

#[test]
fn plans_small_and_large() {
    picture!("plan-3", &plan(SMALL, 3), SMALL);
    let mut top = plan(LARGE, 300);
    press(&mut top, "++");
    top.event(moment(1), Event::Key(Key::Right));
    picture!("plan-300", &top, LARGE);
}

#[test]
fn one_job_and_its_output() {
    picture!("job-3", &job(SMALL, sample::job(), 3), SMALL);
    picture!("job-300", &job(LARGE, sample::job(), 300), LARGE);
    let mut top = job(SMALL, sample::job(), 300);
    press(&mut top, "o");
    picture!("job-output", &top, SMALL);
}

#[test]
fn what_lies_over_a_page() {
    let mut top = jobs(SMALL, sample::listing(3));
    press(&mut top, "?");
    picture!("help", &top, SMALL);
    let mut top = job(SMALL, sample::job(), 3);
    press(&mut top, "Q");
    let Some(crate::native::top::state::Over::Quote(page)) = top.over() else {
        panic!("no quote");
    };
    let spec = crate::native::top::shape::of(&sample::job(), 0)
        .unwrap()
        .spec;
    let ask = Ask::Quote {
        of: page.of().to_owned(),
        spec: Box::new(spec),
    };
    let quote = crate::native::resv::slots::sample::quote();
    top.event(moment(2), answer(ask, Got::Quote(Box::new(quote))));
    picture!("quote", &top, SMALL);
}

#[test]
fn questions_and_troubles() {
    let mut top = jobs(SMALL, sample::listing(3));
    press(&mut top, "c");
    let last = |top: &Top| seen(top, SMALL).pop().unwrap_or_default();
    assert_eq!(last(&top), "cancel job 1 'job1' of ann? y/N");
    press(&mut top, "n/abc");
    assert_eq!(last(&top), "/abc_");
    top.event(moment(1), Event::Key(Key::Esc));
    top.event(moment(3), Event::Ticked);
    top.event(moment(20), Event::Ticked);
    let status = |top: &Top| seen(top, SMALL)[22].clone();
    assert_eq!(status(&top), "no answer since 19 s");
    let failure = Failure {
        text: "cannot reach the controller: is cosyd running?".into(),
        unreachable: true,
    };
    let ask = top.jobs().ask();
    let lost = Answer {
        ask,
        got: Err(failure),
        took: Duration::from_secs(1),
    };
    top.event(moment(21), Event::Answered(Box::new(lost)));
    assert_eq!(
        status(&top),
        "no answer since 20 s: cannot reach the controller: is cosyd running?"
    );
    // The old picture is still there.
    assert!(seen(&top, SMALL)[2].contains("job1"), "{:#?}", seen(&top, SMALL));
}

#[test]
fn nothing_is_drawn_that_changes_a_terminal() {
    let bad = |n: usize| {
        let names = [
            "\u{1b}[2J\u{1b}[31mred\u{7}",
            "exe\u{202e}gpj\u{2066}x",
            "\u{8ba1}\u{7b97}\u{6d41}\u{4f53}\u{529b}\u{5b66}\u{6a21}\u{62df}",
            "\u{9b}31m\r\n\t",
        ];
        names[n % names.len()].to_owned()
    };
    let mut tops = vec![jobs(SMALL, sample::named(8, bad))];
    let mut top = jobs(SMALL, sample::named(8, bad));
    press(&mut top, "c");
    tops.push(top);
    let mut all = sample::nodes(3);
    all[0].name = bad(0);
    all[1].reason = bad(1);
    let mut top = nodes(SMALL, 3);
    top.event(moment(1), answer(Ask::Nodes, Got::Nodes(all)));
    tops.push(top);
    let mut top = job(SMALL, sample::job(), 3);
    let path = "/home/ann/cosy-12.out".into();
    let said = Said::More(b"\x1b[2J\x1b]0;x\x07 \xe2\x80\xae \xc2\x9b31m\r\n".to_vec());
    top.event(moment(1), Event::Output(News { path, said }));
    tops.push(top);
    let mut top = plan(SMALL, 3);
    let Got::Plan { mut chart, own } = sample::plan_answer(3) else {
        panic!("no plan");
    };
    chart.nodes[0] = bad(1);
    chart.bars[0].label = bad(0);
    let ask = top.plan().ask(&noon());
    top.event(moment(1), answer(ask, Got::Plan { chart, own }));
    tops.push(top);
    for top in &tops {
        for line in seen(top, SMALL) {
            let fine = |c: char| crate::output::harmless(c) == c;
            assert!(line.chars().all(fine), "{line:?}");
            assert!(line.width() <= 80, "{line:?}");
        }
    }
}

#[test]
fn every_size_is_drawn() {
    for columns in [0, 1, 20, 29, 30, 40, 79, 80, 200] {
        for rows in [0, 1, 3, 6, 10, 24, 60] {
            let size = (columns, rows);
            let mut tops = vec![
                jobs(size, sample::listing(30)),
                nodes(size, 30),
                plan(size, 30),
                job(size, sample::job(), 30),
            ];
            for top in &mut tops {
                buffer(top, size);
                press(top, "?G");
                buffer(top, size);
                press(top, "?/x");
                buffer(top, size);
                // Drawn before the state has been told of the new size.
                buffer(top, (33, 7));
            }
        }
    }
    let few = seen(&jobs((29, 10), sample::listing(3)), (29, 10));
    assert_eq!(few[0], "too small: 30x6 at least");
    picture!("jobs-40x10", &jobs((40, 10), sample::listing(30)), (40, 10));
}

#[test]
fn without_colours_letters_tell() {
    let mut settings = crate::native::top::sample::settings(Page::Jobs);
    settings.colour = false;
    let mut top = Top::new(settings, SMALL, moment(0));
    let ask = top.jobs().ask();
    top.event(moment(0), Event::Ticked);
    top.event(moment(1), answer(ask, Got::Jobs(sample::listing(5))));
    let plain = buffer(&top, SMALL);
    assert!(
        plain
            .content
            .iter()
            .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
    );
    let chosen = |buffer: &Buffer| buffer[(0, 2)].modifier.contains(Modifier::REVERSED);
    assert!(chosen(&plain));
    let coloured = buffer(&jobs(SMALL, sample::listing(5)), SMALL);
    assert!(coloured.content.iter().any(|cell| cell.fg == Color::Green));
    assert!(coloured.content.iter().all(|cell| cell.bg == Color::Reset));
}
