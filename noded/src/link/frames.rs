//! Frames both ways on a link that is up.

use super::error::LinkError;
use super::greeting::Stream;
use cosy_model::limits;
use cosy_model::node::NodeOrder;
use cosy_proto::frame::{self, Decoder};
use cosy_proto::words::{self, ReportedNames};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

const CHUNK: usize = 16 << 10;

/// The reading end of a link.
pub struct Orders {
    stream: ReadHalf<Stream>,
    decoder: Decoder,
    reported: ReportedNames,
    chunk: Vec<u8>,
}

impl Orders {
    /// Of what comes there.
    pub fn new(stream: ReadHalf<Stream>) -> Self {
        Self {
            stream,
            decoder: Decoder::new(limits::FRAME_BYTES),
            reported: ReportedNames::default(),
            chunk: vec![0; CHUNK],
        }
    }

    /// The orders of all frames that have come whole meanwhile, at least one.
    ///
    /// # Errors
    /// The end of the link, or what is no message.
    pub async fn next(&mut self) -> Result<Vec<NodeOrder>, LinkError> {
        loop {
            match self.stream.read(&mut self.chunk).await? {
                0 => return Err(LinkError::Closed),
                n => self.decoder.push(self.chunk.get(..n).unwrap_or_default()),
            }
            let orders = whole_orders(&mut self.decoder, &mut self.reported)?;
            self.decoder.shrink();
            if !orders.is_empty() {
                return Ok(orders);
            }
        }
    }
}

fn whole_orders(
    decoder: &mut Decoder,
    reported: &mut ReportedNames,
) -> Result<Vec<NodeOrder>, frame::FrameError> {
    let passed_over = |name: &str, why: &str| {
        tracing::warn!(
            "the controller's order '{name}' is not known to this release and passed over: {why}"
        );
    };
    let mut orders = Vec::new();
    while let Some(order) = reported.next(decoder, passed_over)? {
        orders.push(order);
    }
    Ok(orders)
}

/// Writes what is handed in, but for reports that the controller does not know, until that ends.
pub async fn write_frames(
    mut stream: WriteHalf<Stream>,
    mut frames: mpsc::UnboundedReceiver<Vec<u8>>,
    lacks: &[&'static str],
) -> LinkError {
    let known = |frame: &Vec<u8>| {
        let body = frame.get(frame::HEADER..).unwrap_or_default();
        words::lacking(lacks, body).is_none()
    };
    while let Some(first) = frames.recv().await {
        let mut bytes = if known(&first) { first } else { Vec::new() };
        while let Ok(more) = frames.try_recv() {
            if known(&more) {
                bytes.extend(more);
            }
        }
        let written = async {
            stream.write_all(&bytes).await?;
            stream.flush().await
        };
        if let Err(e) = written.await {
            return e.into();
        }
    }
    LinkError::Closed
}
