//! Clusters for the tests of the broker: each holds, confirms and cancels in memory, and
//! fails when the test says so.

use super::clusters::Cluster;
use super::transport::ClusterError;
use cosy_model::api::{Reply, Request};
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::{
    Quote, QuotedSlot, ReservationInfo, ReservationSpec, ReservationState, StartChoice,
};
use cosy_model::{Refusal, RefusalCode, ReservationId, Span, Su, Time};
use cosy_proto::client::RequestKey;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The length of all reservations of these tests.
pub const LENGTH: Span = Span::from_minutes(60);

pub fn cluster(name: &str) -> Cluster {
    Cluster {
        name: name.into(),
        socket: format!("/run/{name}.sock").into(),
    }
}

pub fn clusters(names: &[&str]) -> Vec<Cluster> {
    names.iter().map(|n| cluster(n)).collect()
}

pub fn minutes(n: i64) -> Time {
    Time::EPOCH + Span::from_minutes(n)
}

/// A slot that would be admitted; the price is all base.
pub fn slot(start_minutes: i64, price: i64, availability_ppm: u32) -> QuotedSlot {
    QuotedSlot {
        start: minutes(start_minutes),
        end: minutes(start_minutes) + LENGTH,
        feasible: true,
        admitted: true,
        reason: String::new(),
        availability_ppm,
        by_load: true,
        base: Su::whole(price),
        license_price: Su::ZERO,
        extra: Su::ZERO,
        delayed_jobs: 0,
        total_delay: Span::ZERO,
        own_delayed: Vec::new(),
        nodes: "n1".into(),
        preempts: Vec::new(),
    }
}

/// A slot that is refused.
pub fn full(start_minutes: i64) -> QuotedSlot {
    QuotedSlot {
        admitted: false,
        feasible: false,
        reason: "reservation 3 is in the way".into(),
        ..slot(start_minutes, 1, 0)
    }
}

pub fn quote(slots: Vec<QuotedSlot>) -> Quote {
    Quote {
        now: Time::EPOCH,
        queue: "main".into(),
        plain_start: Some(minutes(5)),
        choice: (!slots.is_empty()).then_some(0),
        slots,
        notice_earliest: None,
        rules: Vec::new(),
        account: None,
        licenses: Default::default(),
    }
}

pub fn spec(pick: StartChoice) -> ReservationSpec {
    ReservationSpec::plain(ResourceRequest::default(), LENGTH, pick)
}

/// What happens to a request instead of its normal answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The cluster cannot be reached.
    Gone,
    /// The request is carried out, but the answer is lost.
    Deaf,
    /// The request is lost, and so there is no answer.
    Silent,
    /// The request is refused with this code.
    No(RefusalCode),
}

/// A fault at one cluster, at requests of one name: `times` times after `skip` that went well.
#[derive(Clone, Debug)]
pub struct Fault {
    pub cluster: &'static str,
    pub request: &'static str,
    pub skip: u32,
    pub times: u32,
    pub kind: FaultKind,
}

/// The state of one cluster.
#[derive(Default)]
struct ClusterState {
    slots: Vec<QuotedSlot>,
    reservations: BTreeMap<u64, (ReservationState, Time)>,
    answered: Vec<(RequestKey, Reply)>,
    unreachable: bool,
}

/// All clusters of a test.
pub struct FakeClusters {
    states: Mutex<BTreeMap<String, ClusterState>>,
    faults: Mutex<Vec<Fault>>,
    /// Every request as `CLUSTER REQUEST`.
    pub requested: Mutex<Vec<String>>,
}

impl FakeClusters {
    /// Clusters with those free slots.
    pub fn new(all: &[(&str, Vec<QuotedSlot>)]) -> Self {
        let states = all.iter().map(|(name, slots)| {
            let state = ClusterState {
                slots: slots.clone(),
                ..ClusterState::default()
            };
            ((*name).to_owned(), state)
        });
        Self {
            states: Mutex::new(states.collect()),
            faults: Mutex::new(Vec::new()),
            requested: Mutex::new(Vec::new()),
        }
    }

    pub fn fault(
        self,
        cluster: &'static str,
        request: &'static str,
        skip: u32,
        times: u32,
        kind: FaultKind,
    ) -> Self {
        self.faults.lock().unwrap().push(Fault {
            cluster,
            request,
            skip,
            times,
            kind,
        });
        self
    }

    /// The cluster cannot be reached from now on.
    pub fn kill(&self, cluster: &str) {
        self.states
            .lock()
            .unwrap()
            .get_mut(cluster)
            .unwrap()
            .unreachable = true;
    }

    /// The reservations of all clusters with their states: `a1:confirmed b1:cancelled`.
    pub fn states(&self) -> String {
        let states = self.states.lock().unwrap();
        let each = states.iter().flat_map(|(name, cluster)| {
            let all = cluster.reservations.iter();
            all.map(move |(id, (state, _))| format!("{name}{id}:{state}"))
        });
        each.collect::<Vec<_>>().join(" ")
    }

    pub fn count(&self, request: &str) -> usize {
        let requested = self.requested.lock().unwrap();
        requested.iter().filter(|a| *a == request).count()
    }

    pub fn transport(
        &self,
        cluster: &Cluster,
        request: &Request,
        key: Option<RequestKey>,
    ) -> Result<Reply, ClusterError> {
        assert_eq!(key.is_some(), request.changes());
        let word = word(request);
        let line = format!("{} {word}", cluster.name);
        self.requested.lock().unwrap().push(line);
        let mut all = self.states.lock().unwrap();
        let state = all.get_mut(&cluster.name).unwrap();
        if state.unreachable {
            return Err(ClusterError::Unreachable("nobody is there".into()));
        }
        match self.kind(&cluster.name, word) {
            None => state.answer(request, key),
            Some(FaultKind::Gone) => Err(ClusterError::Unreachable("nobody is there".into())),
            Some(FaultKind::Silent) => Err(ClusterError::Unknown("no answer".into())),
            Some(FaultKind::Deaf) => {
                let _ = state.answer(request, key);
                Err(ClusterError::Unknown("no answer".into()))
            }
            Some(FaultKind::No(code)) => {
                Err(ClusterError::Refused(Refusal::new(code, "no, because")))
            }
        }
    }

    fn kind(&self, cluster: &str, word: &str) -> Option<FaultKind> {
        let mut faults = self.faults.lock().unwrap();
        let here = |f: &&mut Fault| f.cluster == cluster && f.request == word && f.times > 0;
        let fault = faults.iter_mut().find(here)?;
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        fault.times -= 1;
        Some(fault.kind)
    }
}

fn word(request: &Request) -> &'static str {
    match request {
        Request::Quote { .. } => "quote",
        Request::Reserve { .. } => "reserve",
        Request::Confirm { .. } => "confirm",
        Request::CancelReservation { .. } => "cancel",
        _ => panic!("the broker does not ask this: {request:?}"),
    }
}

impl ClusterState {
    fn answer(
        &mut self,
        request: &Request,
        key: Option<RequestKey>,
    ) -> Result<Reply, ClusterError> {
        let before = self.answered.iter().find(|(k, _)| Some(*k) == key);
        if let Some((_, reply)) = before {
            return Ok(reply.clone());
        }
        let reply = match request {
            Request::Quote { ask, .. } => Reply::Quote(Box::new(quote(self.offers(ask)))),
            Request::Reserve { ask, hold, .. } => self.reserve(ask, *hold)?,
            Request::Confirm { id } => self.confirm(*id)?,
            Request::CancelReservation { ids, .. } => self.cancel(ids),
            _ => panic!("the broker does not ask this: {request:?}"),
        };
        self.answered.extend(key.map(|key| (key, reply.clone())));
        Ok(reply)
    }

    fn offers(&self, ask: &ReservationSpec) -> Vec<QuotedSlot> {
        let fits = |s: &&QuotedSlot| match ask.pick {
            StartChoice::At(start) => s.start == start,
            _ => true,
        };
        self.slots.iter().filter(fits).cloned().collect()
    }

    fn reserve(&mut self, ask: &ReservationSpec, hold: bool) -> Result<Reply, ClusterError> {
        let offers = self.offers(ask);
        let Some(slot) = offers.iter().find(|s| s.admitted) else {
            let refusal = Refusal::new(RefusalCode::NotFree, "reservation 3 is in the way");
            return Err(ClusterError::Refused(refusal));
        };
        let state = if hold {
            ReservationState::Held
        } else {
            ReservationState::Confirmed
        };
        let id = self.reservations.len() as u64 + 1;
        self.reservations.insert(id, (state, slot.start));
        Ok(reserved(vec![info(id, state, slot.start)]))
    }

    fn confirm(&mut self, id: ReservationId) -> Result<Reply, ClusterError> {
        let (state, start) = self.reservations.get_mut(&id.0).unwrap();
        assert_eq!(*state, ReservationState::Held);
        *state = ReservationState::Confirmed;
        Ok(reserved(vec![info(id.0, *state, *start)]))
    }

    fn cancel(&mut self, ids: &[ReservationId]) -> Reply {
        for id in ids {
            let (state, _) = self.reservations.get_mut(&id.0).unwrap();
            assert!(state.is_live());
            *state = ReservationState::Cancelled;
        }
        Reply::Done {
            changed: ids.len() as u64,
            refused: Vec::new(),
        }
    }
}

fn info(id: u64, state: ReservationState, start: Time) -> ReservationInfo {
    ReservationInfo {
        start,
        end: start + LENGTH,
        hold_until: Some(minutes(5)),
        ..crate::native::reservations::sample(id, "ann", state)
    }
}

fn reserved(reservations: Vec<ReservationInfo>) -> Reply {
    Reply::Reserved {
        reservations,
        conflicts: Vec::new(),
        note: String::new(),
    }
}
