//! What the node daemons of a cluster say of jobs.

use super::Cluster;
use cosy_model::JobId;
use cosy_model::step::{JobSamples, SampledNodes, StepAnswer, StepAsk};
use cosy_proto::frame;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of an answer.
const FRAME_BYTES: usize = 1 << 20;

impl Cluster {
    /// The socket for steps of a node's daemon (counted from 0).
    pub fn steps_socket(&self, at: usize) -> PathBuf {
        let name = format!("n{}", at + 1);
        self.node_dir(at)
            .join("spool")
            .join(name)
            .join("steps.sock")
    }

    /// What the first node says of a job of its own.
    ///
    /// # Panics
    /// When it does not answer, or with something else.
    pub fn samples(&self, job: JobId) -> JobSamples {
        let mut stream = UnixStream::connect(self.steps_socket(0)).expect("the daemon");
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("a time limit");
        let of = SampledNodes::First;
        let ask = StepAsk::Samples { job, of };
        frame::write(&mut stream, &ask, FRAME_BYTES).expect("it takes the question");
        match frame::read(&mut stream, FRAME_BYTES).expect("its answer") {
            Some(StepAnswer::Samples(samples)) => samples,
            other => panic!("{other:?}"),
        }
    }
}
