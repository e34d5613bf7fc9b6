//! Why a task's process did not get as far as its program: a record that it writes to a
//! pipe, and the words for it.

use crate::sys;
use cosy_slurm::end_messages;
use nix::errno::Errno;
use std::fs::File;
use std::io::Write;

/// What the process was about to do when it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stage {
    /// Joining a control group.
    Group = 1,
    /// Binding itself to its cores.
    Bind,
    /// Taking the user's groups and ids.
    Identity,
    /// Entering the working directory.
    Workdir,
    /// Taking the terminal.
    Terminal,
    /// Opening the input file.
    Stdin,
    /// Opening the output file.
    Stdout,
    /// Opening the error file.
    Stderr,
    /// Executing the program.
    Exec,
    /// Making the file that is to be received.
    Create,
    /// Writing the file that is received.
    Write,
    /// Reading what is to be in it.
    Read,
    /// Putting it in its place.
    Place,
}

impl Stage {
    const ALL: [Self; 13] = [
        Self::Group,
        Self::Bind,
        Self::Identity,
        Self::Workdir,
        Self::Terminal,
        Self::Stdin,
        Self::Stdout,
        Self::Stderr,
        Self::Exec,
        Self::Create,
        Self::Write,
        Self::Read,
        Self::Place,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|s| *s as u8 == byte)
    }

    /// This stage failed with that error.
    pub fn failed(self) -> impl Fn(Errno) -> Failure {
        move |errno| Failure {
            stage: self,
            errno: errno as i32,
        }
    }
}

/// A stage of starting a task that failed, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    stage: Stage,
    errno: i32,
}

/// What messages name, of one task.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Program or file.
    pub what: String,
    /// Working directory of the task.
    pub workdir: String,
    /// Files of input, output and errors.
    pub files: [String; 3],
}

impl Failure {
    /// Bytes of a record: place of the task, stage, error number. All tasks share a pipe,
    /// which takes so few bytes whole.
    pub const BYTES: usize = 9;

    /// The error number.
    pub const fn errno(self) -> i32 {
        self.errno
    }

    /// Tells the supervisor.
    pub fn write(self, place: u32, mut pipe: &File) {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&place.to_le_bytes());
        bytes[4] = self.stage as u8;
        bytes[5..].copy_from_slice(&self.errno.to_le_bytes());
        let _ = pipe.write_all(&bytes);
    }

    /// Place of the task and what failed.
    pub fn read(bytes: &[u8]) -> Option<(u32, Self)> {
        let place = u32::from_le_bytes(*bytes.first_chunk()?);
        let errno = i32::from_le_bytes(*bytes.get(5..)?.first_chunk()?);
        let stage = Stage::from_byte(bytes[4])?;
        Some((place, Self { stage, errno }))
    }

    /// In Slurm's dialect a program that cannot be executed is a task that fails, with the
    /// error's number: that, and what its supervisor says.
    pub fn as_slurm(self, names: &Names) -> Option<(i32, String)> {
        let cause = sys::errno_text(self.errno);
        let text = end_messages::no_program(&names.what, cause);
        (self.stage == Stage::Exec).then_some((self.errno, text))
    }

    /// In one line for the user.
    pub fn text(self, names: &Names, node: &str, user: &str) -> String {
        let errno = sys::errno_text(self.errno);
        let [stdin, stdout, stderr] = &names.files;
        let what = match self.stage {
            Stage::Group => "join the step's control group".to_owned(),
            Stage::Bind => "bind the task to its cores".to_owned(),
            Stage::Identity => format!("become user {user}"),
            Stage::Workdir => format!("enter the working directory {}", names.workdir),
            Stage::Terminal => "take the terminal".to_owned(),
            Stage::Stdin => format!("open the input file {stdin}"),
            Stage::Stdout => format!("open the output file {stdout}"),
            Stage::Stderr => format!("open the error file {stderr}"),
            Stage::Exec => format!("execute {}", names.what),
            Stage::Create => format!("create {}", names.what),
            Stage::Write => format!("write {}", names.what),
            Stage::Read => format!("receive {}", names.what),
            Stage::Place => format!("put {} in its place", names.what),
        };
        let hint = match (self.stage, Errno::from_raw(self.errno)) {
            (Stage::Create | Stage::Place, Errno::EEXIST) => " (--force replaces it)",
            _ => "",
        };
        format!("cannot {what} on {node}: {errno}{hint}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        for stage in Stage::ALL {
            let failure = Stage::failed(stage)(Errno::EACCES);
            let (reading, writing) = crate::shepherd::child::pipe().unwrap();
            failure.write(77, &writing);
            let mut bytes = [0; Failure::BYTES];
            std::io::Read::read_exact(&mut &reading, &mut bytes).unwrap();
            assert_eq!(Failure::read(&bytes), Some((77, failure)));
        }
        assert_eq!(Failure::read(&[0; Failure::BYTES]), None);
        assert_eq!(Failure::read(&[1; 3]), None);
    }

    #[test]
    fn words() {
        let names = Names {
            what: "./a.out".into(),
            ..Names::default()
        };
        let check = |stage: Stage, errno, expected: &str| {
            assert_eq!(stage.failed()(errno).text(&names, "n2", "ann"), expected);
        };
        check(Stage::Exec, Errno::EACCES, "cannot execute ./a.out on n2: Permission denied");
        check(
            Stage::Create,
            Errno::EEXIST,
            "cannot create ./a.out on n2: File exists (--force replaces it)",
        );
    }
}
