//! Scripts and variables of submissions, kept for the moment of their start.

use crate::store::{Payload, Store, StoreError};
use cosy_control::Record;
use cosy_model::JobId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Kept in memory at most, in bytes.
const IN_MEMORY: usize = 8 << 20;

/// Scripts and variables of submissions that are likely to be started soon.
#[derive(Debug, Default)]
pub struct Payloads {
    bytes: usize,
    order: VecDeque<JobId>,
    by_base: BTreeMap<JobId, Arc<Payload>>,
}

impl Payloads {
    /// Keeps those of new submissions.
    pub fn learn(&mut self, records: &[Record]) {
        for record in records {
            if let Record::Submitted {
                row,
                script,
                environment,
            } = record
                && row.flow.is_none()
            {
                let payload = Payload {
                    script: script.clone(),
                    environment: environment.clone(),
                };
                self.put(row.base, Arc::new(payload));
            }
        }
    }

    fn put(&mut self, base: JobId, payload: Arc<Payload>) {
        self.bytes += size(&payload);
        self.order.push_back(base);
        self.by_base.insert(base, payload);
        while self.bytes > IN_MEMORY
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(old) = self.by_base.remove(&oldest) {
                self.bytes -= size(&old);
            }
        }
    }

    /// The payload of a submission, out of the store where it is not here.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn get(&mut self, store: &Store, base: JobId) -> Result<Arc<Payload>, StoreError> {
        if let Some(payload) = self.by_base.get(&base) {
            return Ok(payload.clone());
        }
        let payload = Arc::new(store.payload(base)?);
        self.put(base, payload.clone());
        Ok(payload)
    }
}

fn size(payload: &Payload) -> usize {
    payload.script.0.len() + payload.environment.0.len() + 64
}
