//! `cosy top --once`: one frame as text.

use crate::native::top::asker::{Followed, answer, caller};
use crate::native::top::draw::draw;
use crate::native::top::event::{Effect, Event, Moment};
use crate::native::top::painted;
use crate::native::top::state::{Settings, Top};
use crate::times;
use crate::{exit, output};
use anyhow::anyhow;
use cosy_client::RetryPolicy;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Who says what is to be told beside the frame.
const PROGRAM: &str = "cosy top";

/// The frame as text, of so many columns and rows.
///
/// # Errors
/// A refusal, or no controller.
pub fn frame(settings: Settings, (columns, rows): (u16, u16)) -> anyhow::Result<String> {
    let begun = Instant::now();
    let moment = || Moment {
        now: times::now(),
        passed: begun.elapsed(),
    };
    // Nothing is asked a second time.
    let settings = Settings {
        every: Duration::MAX,
        ..settings
    };
    let mut top = Top::new(settings, (columns, rows), moment());
    let mut caller = caller(RetryPolicy::default(), |text| output::complain(PROGRAM, text));
    let mut effects = VecDeque::from(top.event(moment(), Event::Ticked));
    while let Some(effect) = effects.pop_front() {
        match effect {
            Effect::Ask(ask) => {
                let answer = answer(&mut caller, ask);
                if let Err(failure) = &answer.got {
                    return Err(match failure.unreachable {
                        true => exit::error(exit::UNREACHABLE, failure.text.clone()),
                        false => anyhow!("{}", failure.text),
                    });
                }
                effects.extend(top.event(moment(), Event::Answered(Box::new(answer))));
            }
            Effect::Follow(Some(path)) => {
                for news in Followed::new(path).look() {
                    effects.extend(top.event(moment(), Event::Output(news)));
                }
            }
            Effect::Follow(None) | Effect::Redraw | Effect::Suspend | Effect::Quit => {}
        }
    }
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    draw(&top, &mut buffer);
    Ok(painted::text(&buffer))
}
