//! Output of tasks on its way up, input on its way to them.

use super::run::Supervisor;
use super::task::{self, ReadOutcome};
use super::terminal::END_OF_INPUT;
use cosy_model::step::{Stream, UpFrame};
use cosy_proto::step;
use nix::errno::Errno;
use std::rc::Rc;

impl Supervisor<'_> {
    /// Reads once what a task has written.
    pub(super) fn read_output(&mut self, place: usize, stream: Stream) -> ReadOutcome {
        if !self.has_room() {
            return ReadOutcome::Some(0);
        }
        let Some(its) = self.tasks.get_mut(place) else {
            return ReadOutcome::End;
        };
        let Some(fd) = its.ends.of(stream) else {
            return ReadOutcome::End;
        };
        if self.labels.is_full() && self.labels.has(its.rank, stream) {
            return ReadOutcome::Some(0);
        }
        let read = task::read(fd, &mut self.buffer);
        let rank = its.rank;
        match read {
            ReadOutcome::Some(count) if self.labels.has(rank, stream) => {
                self.labels.write(rank, stream, &self.buffer[..count]);
            }
            ReadOutcome::Some(count) => {
                let mut frame = Vec::with_capacity(count + 10);
                step::put_output(&mut frame, rank, stream, &self.buffer[..count]);
                self.output(Rc::new(frame));
                self.up.flush();
            }
            ReadOutcome::NotYet => {}
            ReadOutcome::End => its.ends.close(stream),
        }
        read
    }

    /// The supervisor's own words, among the errors of a task.
    pub(super) fn say_for(&mut self, rank: u32, text: &str) {
        let mut frame = Vec::with_capacity(text.len() + 10);
        step::put_output(&mut frame, rank, Stream::Error, text.as_bytes());
        self.output(Rc::new(frame));
        self.up.flush();
    }

    /// A frame of output goes up.
    pub(super) fn output(&mut self, frame: super::queue::Bytes) {
        if self.head {
            self.watchers.output(&frame);
        }
        self.pass_up(frame);
    }

    /// Nothing of the step is left here: what is still in its pipes is read, then they
    /// are closed, even where something outside holds their other end.
    pub(super) fn drain(&mut self) {
        for place in 0..self.tasks.len() {
            for stream in [Stream::Output, Stream::Error] {
                while self.has_room() {
                    match self.read_output(place, stream) {
                        ReadOutcome::Some(0) => break,
                        ReadOutcome::Some(_) => {}
                        ReadOutcome::NotYet | ReadOutcome::End => {
                            self.tasks[place].ends.close(stream);
                            break;
                        }
                    }
                }
            }
        }
    }

    /// All outputs of tasks here were read to their ends.
    pub(super) fn is_drained(&self) -> bool {
        let closed = |t: &task::Task| t.ends.output.is_none() && t.ends.error.is_none();
        self.tasks.iter().all(closed)
    }

    /// Gives tasks their input, as much as they take.
    pub(super) fn feed(&mut self) {
        for place in 0..self.tasks.len() {
            self.feed_one(place);
        }
        if let Some(bytes) = self.input.next_acknowledgement() {
            self.send_up(UpFrame::StdinTaken { bytes });
        }
    }

    fn feed_one(&mut self, place: usize) {
        let ends = &mut self.tasks[place].ends;
        while let Some(fd) = &ends.input {
            let bytes = self.input.next_of(place);
            if bytes.is_empty() {
                break;
            }
            match nix::unistd::write(fd, bytes) {
                Ok(count) => self.input.task_took(place, count),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(_) => {
                    ends.input = None;
                    self.input.task_gone(place);
                }
            }
        }
        if self.input.is_over_for(place) && ends.input.is_some() {
            self.end_input(place);
        }
    }

    fn end_input(&mut self, place: usize) {
        let ends = &mut self.tasks[place].ends;
        let Some(fd) = ends.input.take() else {
            return;
        };
        if ends.terminal.is_some() {
            let _ = nix::unistd::write(&fd, &[END_OF_INPUT]);
        }
        if let Some(whole) = ends.whole.take() {
            let _ = nix::unistd::write(&whole, &[1]);
        }
    }
}
