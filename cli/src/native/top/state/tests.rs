//! What keys and answers do.

use super::*;
use crate::native::top::event::{Listing, News, Said};
use crate::native::top::sample::{self, answer, moment, top};
use cosy_model::api::{JobFilter, Request};
use ratatui_termion::termion::event::Key;

const SIZE: (u16, u16) = (80, 24);

/// The command on its page of jobs, with so many.
fn with_jobs(jobs: usize) -> Top {
    let mut top = top(Page::Jobs, SIZE);
    let effects = top.event(moment(0), Event::Ticked);
    let ask = top.jobs().ask();
    assert_eq!(effects, [Effect::Ask(ask.clone())]);
    top.event(moment(0), answer(ask, Got::Jobs(sample::listing(jobs))));
    top
}

/// What keys do, a second after the beginning.
fn keys(top: &mut Top, keys: &[Key]) -> Vec<Effect> {
    keys.iter()
        .flat_map(|key| top.event(moment(1), Event::Key(*key)))
        .collect()
}

fn typed(top: &mut Top, text: &str) -> Vec<Effect> {
    let all: Vec<Key> = text.chars().map(Key::Char).collect();
    keys(top, &all)
}

fn job_answer(table: cosy_model::api::Table) -> Event {
    let told = Vec::new();
    let table = Box::new(table);
    answer(Ask::Job("12".parse().unwrap()), Got::Job { table, told })
}

#[test]
fn ways_out() {
    for key in [Key::Char('q'), Key::Ctrl('c')] {
        assert_eq!(keys(&mut with_jobs(3), &[key]), [Effect::Quit]);
    }
    assert_eq!(keys(&mut with_jobs(3), &[Key::Ctrl('z')]), [Effect::Suspend]);
    assert_eq!(keys(&mut with_jobs(3), &[Key::Ctrl('l')]), [Effect::Redraw]);
    // In what is typed it is a letter.
    assert_eq!(typed(&mut with_jobs(3), "/q"), []);
    assert_eq!(keys(&mut with_jobs(3), &[Key::Char('/'), Key::Ctrl('c')]), [Effect::Quit]);
    // Over a page it closes what is over it.
    let mut top = with_jobs(3);
    assert_eq!(typed(&mut top, "?q"), []);
    assert!(top.over().is_none());
}

#[test]
fn pages() {
    let mut top = with_jobs(3);
    let mut check = |key: Key, page: Page, ask: Option<Ask>| {
        let effects = keys(&mut top, &[key]);
        assert_eq!(top.page(), page, "{key:?}");
        let wanted = ask.map(Effect::Ask);
        assert_eq!(effects.first(), wanted.as_ref(), "{key:?}");
        // It is answered, so that the next can be asked.
        for effect in effects {
            if let Effect::Ask(ask) = effect {
                let failure = Failure {
                    text: "no".into(),
                    unreachable: false,
                };
                let took = Duration::ZERO;
                let event = Answer {
                    ask,
                    got: Err(failure),
                    took,
                };
                top.event(moment(1), Event::Answered(Box::new(event)));
            }
        }
    };
    check(Key::Char('2'), Page::Nodes, Some(Ask::Nodes));
    check(Key::Char('2'), Page::Nodes, None);
    check(Key::Esc, Page::Jobs, Some(sample::top(Page::Jobs, SIZE).jobs().ask()));
    check(Key::Char('\n'), Page::Job, Some(Ask::Job("1".parse().unwrap())));
    check(
        Key::Char('3'),
        Page::Plan,
        Some(sample::top(Page::Plan, SIZE).plan().ask(&sample::noon())),
    );
    check(Key::Char('4'), Page::Job, Some(Ask::Job("1".parse().unwrap())));
    check(Key::Esc, Page::Jobs, Some(sample::top(Page::Jobs, SIZE).jobs().ask()));
    check(Key::Down, Page::Jobs, None);
    check(Key::Char('\n'), Page::Job, Some(Ask::Job("2".parse().unwrap())));
}

#[test]
fn nothing_is_done_without_a_yes() {
    for key in [
        Key::Char('n'),
        Key::Char('\n'),
        Key::Esc,
        Key::Char('q'),
        Key::Char('c'),
    ] {
        let mut top = with_jobs(3);
        assert_eq!(keys(&mut top, &[Key::Char('c'), key]), [], "{key:?}");
        assert_eq!(top.said(), Some("nothing was changed"));
        assert!(top.prompt().is_none());
    }
}

#[test]
fn jobs_are_steered() {
    let check = |row: usize, key: &str, want: Request, said: &str| {
        let mut top = with_jobs(5);
        keys(&mut top, &vec![Key::Down; row]);
        let effects = typed(&mut top, &format!("{key}y"));
        let [Effect::Ask(Ask::Change { request, done })] = effects.as_slice() else {
            panic!("{effects:?}");
        };
        assert_eq!((&**request, done.as_str()), (&want, said));
    };
    let of = |id: &str| JobFilter {
        ids: crate::refs::jobs(id).unwrap(),
        ..JobFilter::default()
    };
    let cancel = Request::Cancel {
        filter: of("1"),
        signal: None,
        script_only: false,
        steps_only: false,
    };
    check(0, "c", cancel, "cancelled job 1");
    let hold = Request::Hold {
        filter: of("2"),
        as_user: false,
    };
    check(1, "h", hold, "held job 2");
    check(3, "h", Request::Release { filter: of("4") }, "released job 4");
    let mut top = with_jobs(3);
    assert_eq!(typed(&mut top, "hy"), []);
    assert_eq!(top.said(), None);
    let mut top = with_jobs(0);
    typed(&mut top, "c");
    assert_eq!(top.said(), Some("choose a job first"));
}

/// Of several rows of an open array the whole of it is meant.
#[test]
fn an_open_array_is_steered_whole() {
    let mut top = top(Page::Job, SIZE);
    top.event(moment(0), Event::Ticked);
    top.event(moment(1), job_answer(sample::listing(3).table));
    typed(&mut top, "c");
    let Some(Prompt::Confirm(confirm)) = top.prompt() else {
        panic!("no question");
    };
    assert!(confirm.question.starts_with("cancel job 1 "), "{}", confirm.question);
}

#[test]
fn what_came_of_it_is_told() {
    let check = |changed, refused: &[&str], want: &str| {
        let mut top = with_jobs(3);
        let effects = typed(&mut top, "cy");
        let Some(Effect::Ask(ask)) = effects.into_iter().next() else {
            panic!("nothing is asked");
        };
        let refused = refused.iter().map(|why| (*why).to_owned()).collect();
        let effects = top.event(moment(1), answer(ask, Got::Changed { changed, refused }));
        assert_eq!(top.said(), Some(want));
        // What is shown has changed.
        assert_eq!(effects, [Effect::Ask(top.jobs().ask())]);
        top.event(moment(20), Event::Ticked);
        assert_eq!(top.said(), None);
    };
    check(1, &[], "cancelled job 1");
    check(0, &[], "nothing was changed");
    check(0, &["1: it is not yours"], "1: it is not yours");
}

#[test]
fn words_are_looked_for() {
    let mut top = with_jobs(5);
    typed(&mut top, "/bob");
    assert_eq!(top.jobs().chosen(), "2");
    keys(&mut top, &[Key::Backspace, Key::Backspace, Key::Backspace]);
    assert_eq!(top.jobs().line(), "");
    keys(&mut top, &[Key::Esc]);
    assert!(top.prompt().is_none());
    // A condition is asked of the controller, once it is whole.
    assert_eq!(typed(&mut top, "/user=bob"), []);
    let effects = keys(&mut top, &[Key::Char('\n')]);
    let [Effect::Ask(Ask::Jobs(filter))] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(filter.users, ["bob"]);
    // What was asked for before is not what is looked for now.
    let old = sample::top(Page::Jobs, SIZE).jobs().ask();
    top.event(moment(1), answer(old, Got::Jobs(Listing::default())));
    assert_eq!(top.jobs().summary().split(':').next(), Some("13 jobs"));
    let effects = keys(&mut top, &[Key::Esc]);
    assert!(
        matches!(effects.as_slice(), [Effect::Ask(Ask::Jobs(filter))] if filter.users.is_empty()),
        "{effects:?}"
    );
}

#[test]
fn own_jobs_or_all() {
    let mut top = with_jobs(3);
    let effects = typed(&mut top, "u");
    assert!(
        matches!(effects.as_slice(), [Effect::Ask(Ask::Jobs(filter))] if filter.users == ["4711"]),
        "{effects:?}"
    );
    typed(&mut top, "s");
    assert!(top.jobs().summary().contains("yours | by state"), "{}", top.jobs().summary());
}

#[test]
fn a_node_leads_to_its_jobs() {
    let mut top = top(Page::Nodes, SIZE);
    top.event(moment(0), Event::Ticked);
    top.event(moment(0), answer(Ask::Nodes, Got::Nodes(sample::nodes(3))));
    let effects = keys(&mut top, &[Key::Down, Key::Char('\n')]);
    assert_eq!((top.page(), top.jobs().line()), (Page::Jobs, "node=n2"));
    assert!(
        matches!(effects.as_slice(), [Effect::Ask(Ask::Jobs(filter))] if filter.nodes == ["n2"]),
        "{effects:?}"
    );
}

#[test]
fn output_is_followed() {
    let mut top = top(Page::Job, SIZE);
    top.event(moment(0), Event::Ticked);
    let effects = top.event(moment(1), job_answer(sample::job()));
    assert_eq!(effects, [Effect::Follow(Some("/home/ann/cosy-12.out".into()))]);
    let effects = typed(&mut top, "e");
    assert_eq!(effects, [Effect::Follow(Some("/home/ann/cosy-12.err".into()))]);
    let path = "/home/ann/cosy-12.err".into();
    top.event(
        moment(1),
        Event::Output(News {
            path,
            said: Said::More(b"x\n".to_vec()),
        }),
    );
    typed(&mut top, "o");
    assert!(top.job().is_some_and(JobPage::is_only_output));
    keys(&mut top, &[Key::Esc]);
    assert!(top.job().is_some_and(|job| !job.is_only_output()) && top.page() == Page::Job);
}

#[test]
fn a_quote_is_asked_for_once_the_job_is_known() {
    let mut top = with_jobs(3);
    let effects = typed(&mut top, "Q");
    assert_eq!(effects, [Effect::Ask(Ask::Job("1".parse().unwrap()))]);
    assert!(top.over().is_none());
    let (told, table) = (Vec::new(), Box::new(sample::job()));
    let got = Got::Job { table, told };
    let effects = top.event(moment(1), answer(Ask::Job("1".parse().unwrap()), got));
    let asks: Vec<&Effect> = effects
        .iter()
        .filter(|e| matches!(e, Effect::Ask(_)))
        .collect();
    let [Effect::Ask(Ask::Quote { spec, .. })] = asks.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(spec.request.nodes, Some(2));
    assert!(matches!(top.over(), Some(Over::Quote(_))));
    // It is not asked for again when the job is looked at again.
    keys(&mut top, &[Key::Esc]);
    let (told, table) = (Vec::new(), Box::new(sample::job()));
    top.event(moment(2), answer(Ask::Job("1".parse().unwrap()), Got::Job { table, told }));
    assert!(top.over().is_none());
}

#[test]
fn a_controller_that_is_lost_and_comes_back() {
    let mut top = with_jobs(3);
    let effects = top.event(moment(2), Event::Ticked);
    assert_eq!(effects.len(), 1);
    assert_eq!(top.event(moment(9), Event::Ticked), []);
    assert_eq!(top.trouble().as_deref(), Some("no answer since 9 s"));
    // Keys go on meanwhile.
    keys(&mut top, &[Key::Down]);
    assert_eq!(top.jobs().chosen(), "2");
    let failure = Failure {
        text: "gone".into(),
        unreachable: true,
    };
    let lost = Answer {
        ask: top.jobs().ask(),
        got: Err(failure),
        took: Duration::from_secs(7),
    };
    top.event(moment(10), Event::Answered(Box::new(lost)));
    assert_eq!(top.trouble().as_deref(), Some("no answer since 10 s: gone"));
    assert_eq!(top.jobs().chosen(), "2");
    let effects = top.event(moment(50), Event::Ticked);
    assert_eq!(effects.len(), 1);
    top.event(moment(50), answer(top.jobs().ask(), Got::Jobs(sample::listing(2))));
    assert_eq!(top.trouble(), None);
}

#[test]
fn notes_are_told() {
    let mut top = with_jobs(3);
    top.event(moment(1), Event::Noted("the answer is 5 s old".to_owned()));
    assert_eq!(top.said(), Some("the answer is 5 s old"));
}

#[test]
fn another_size() {
    let mut top = with_jobs(100);
    keys(&mut top, &[Key::End]);
    assert_eq!(top.jobs().scroll().top(), 80);
    top.event(moment(1), Event::Resized(80, 50));
    assert_eq!((top.jobs().scroll().at(), top.jobs().scroll().top()), (99, 54));
    top.event(moment(1), Event::Resized(80, 10));
    assert_eq!((top.jobs().scroll().at(), top.jobs().scroll().top()), (99, 94));
}
