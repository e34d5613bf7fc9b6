//! The server as tasks see it: whole conversations, several nodes, hostile tasks.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

fn job(ranks: &[&[u32]], node: u32) -> PmiJob {
    PmiJob {
        name: "12.0".to_owned(),
        tasks: ranks.iter().map(|r| r.len() as u32).sum(),
        node,
        ranks: ranks.iter().map(|r| r.to_vec()).collect(),
    }
}

/// What one task is answered, as text; anything else that happens is a failure.
fn answer(pmi: &mut Pmi, rank: u32, sent: &str) -> String {
    let acts = pmi.heard(rank, sent.as_bytes());
    let texts = acts.into_iter().map(|act| match act {
        PmiAct::Answer { rank: to, bytes } if to == rank => String::from_utf8(bytes).unwrap(),
        other => panic!("{sent:?}: {other:?}"),
    });
    texts.collect()
}

/// A message of PMI-2 with its length.
fn packet(body: &str) -> String {
    format!("{:>6}{body}", body.len())
}

fn share(act: &PmiAct) -> OsText {
    match act {
        PmiAct::Contribute(bytes) => OsText(bytes.clone()),
        other => panic!("{other:?}"),
    }
}

const INIT: &str = "cmd=init pmi_version=1 pmi_subversion=1\n";

#[test]
fn a_conversation_in_pmi_1() {
    let mut pmi = Pmi::new(job(&[&[0, 1], &[2]], 0));
    for (sent, expected) in [
        (INIT, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"),
        ("cmd=get_ma", ""),
        ("xes\n", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
        ("cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n"),
        ("cmd=get_universe_size\n", "cmd=universe_size rc=0 size=3\n"),
        ("cmd=get_my_kvsname\n", "cmd=my_kvsname rc=0 msg=success info=ok kvsname=12.0\n"),
        (
            "cmd=get kvsname=12.0 key=PMI_process_mapping\n",
            "cmd=get_result rc=0 msg=success info=ok value=(vector,(0,1,2),(1,1,1))\n",
        ),
        (
            "cmd=put kvsname=12.0 key=a value=1\ncmd=get kvsname=12.0 key=a\n",
            "cmd=put_result rc=0 msg=success info=ok\n\
             cmd=get_result rc=0 msg=success info=ok value=1\n",
        ),
        ("cmd=get kvsname=13.0 key=a\n", "cmd=get_result rc=-1 msg=key_not_found value=unknown\n"),
        ("cmd=getbyidx kvsname=12.0 idx=0\n", "cmd=getbyidx_results rc=0 nextidx=1 key=a val=1\n"),
        (
            "cmd=getbyidx kvsname=12.0 idx=1\n",
            "cmd=getbyidx_results rc=-2 reason=no_more_keyvals\n",
        ),
        (
            "mcmd=spawn\nnprocs=1\nexecname=./a\ntotspawns=1\nspawnssofar=1\nendcmd\n",
            "cmd=spawn_result rc=-1 info=fail \
             msg=further_processes_cannot_be_started_from_within_a_step\n",
        ),
        ("cmd=finalize\n", "cmd=finalize_ack rc=0 msg=success info=ok\n"),
    ] {
        assert_eq!(answer(&mut pmi, 0, sent), expected, "{sent:?}");
    }
    assert!(!pmi.is_unfinished(0) && !pmi.is_unfinished(1));
}

#[test]
fn a_conversation_in_pmi_2() {
    let programs = vec![vec![(1, 2)], vec![(0, 0)]];
    let mut pmi = Pmi::new(job(&[&[0, 2], &[1, 3]], 0)).with_programs(programs);
    let greeting = "cmd=init pmi_version=2 pmi_subversion=0\n";
    let greeted = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";
    assert_eq!(answer(&mut pmi, 0, greeting), greeted);
    for (sent, expected) in [
        (
            "cmd=fullinit;pmirank=0;threaded=FALSE;",
            "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=4;\
             appnum=1;debugged=FALSE;pmiverbose=FALSE;",
        ),
        (
            "cmd=fullinit;pmirank=3;",
            "cmd=fullinit-response;rc=-1;errmsg=rank 3 on the connection of rank 0;",
        ),
        ("cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=12.0;"),
        (
            "cmd=info-getjobattr;thrid=0x7ffe;key=PMI_process_mapping;",
            "cmd=info-getjobattr-response;thrid=0x7ffe;rc=0;found=TRUE;value=(vector,(0,2,1));",
        ),
        (
            "cmd=info-getjobattr;key=universeSize;",
            "cmd=info-getjobattr-response;rc=0;found=TRUE;value=4;",
        ),
        ("cmd=info-getjobattr;key=cartDims;", "cmd=info-getjobattr-response;rc=0;found=FALSE;"),
        ("cmd=kvs-put;key=k;value=a;;b=c;", "cmd=kvs-put-response;rc=0;"),
        (
            "cmd=kvs-get;jobid=12.0;srcid=2;key=k;",
            "cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b=c;",
        ),
        (
            "cmd=info-getnodeattr;key=shm;wait=FALSE;",
            "cmd=info-getnodeattr-response;rc=0;found=FALSE;",
        ),
        (
            "cmd=job-connect;jobid=13.0;",
            "cmd=job-connect-response;rc=-1;errmsg=steps cannot be connected with each other;",
        ),
        (
            "cmd=name-lookup;name=ocean;",
            "cmd=name-lookup-response;rc=-1;errmsg=no such name is published;",
        ),
        ("cmd=finalize;", "cmd=finalize-response;rc=0;"),
    ] {
        assert_eq!(answer(&mut pmi, 0, &packet(sent)), packet(expected), "{sent:?}");
    }
}

#[test]
fn an_attribute_of_the_node_is_waited_for() {
    let mut pmi = Pmi::new(job(&[&[0, 1, 2]], 0));
    for rank in 0..3 {
        answer(&mut pmi, rank, "cmd=init pmi_version=2 pmi_subversion=0\n");
    }
    for rank in 1..3 {
        let wait = packet("cmd=info-getnodeattr;key=shm;wait=TRUE;");
        assert_eq!(answer(&mut pmi, rank, &wait), "");
    }
    let acts = pmi.heard(0, packet("cmd=info-putnodeattr;key=shm;value=x;").as_bytes());
    let to: Vec<u32> = acts
        .iter()
        .map(|act| match act {
            PmiAct::Answer { rank, .. } => *rank,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(to, [0, 1, 2]);
    let answer = packet("cmd=info-getnodeattr-response;rc=0;found=TRUE;value=x;");
    let expected = PmiAct::Answer {
        rank: 2,
        bytes: answer.into_bytes(),
    };
    assert_eq!(acts[2], expected);
}

#[test]
fn a_barrier_waits_for_those_who_may_still_come() {
    let mut pmi = Pmi::new(job(&[&[0, 1, 2]], 0));
    for rank in 0..3 {
        assert!(!pmi.is_unfinished(rank));
        answer(&mut pmi, rank, INIT);
        assert!(pmi.is_unfinished(rank));
    }
    assert!(pmi.heard(0, b"cmd=barrier_in\n").is_empty());
    let twice = "cmd=barrier_out rc=-1 info=fail msg=this_task_is_at_a_barrier_already\n";
    assert_eq!(answer(&mut pmi, 0, "cmd=barrier_in\n"), twice);
    assert!(pmi.closed(1).is_empty());
    assert!(pmi.is_unfinished(1));
    let acts = pmi.heard(2, b"cmd=finalize\n");
    assert_eq!(share(&acts[1]), OsText(Vec::new()));
    let acts = pmi.spread(&[(0, share(&acts[1]))]);
    let out = PmiAct::Answer {
        rank: 0,
        bytes: b"cmd=barrier_out rc=0 msg=success info=ok\n".to_vec(),
    };
    assert_eq!(acts, [out]);
    assert!(pmi.takes_part());
    // Nobody waits: nothing is contributed.
    assert!(pmi.closed(0).is_empty());
    assert!(pmi.spread(&[]).is_empty());
    assert!(!pmi.takes_part());
}

#[test]
fn abort_ends_the_step() {
    let mut pmi = Pmi::new(job(&[&[0]], 0));
    answer(&mut pmi, 0, INIT);
    let acts = pmi.heard(0, b"cmd=abort exitcode=17\n");
    let abort = PmiAct::Abort {
        rank: 0,
        code: 17,
        reason: String::new(),
    };
    assert_eq!(acts, [abort]);
    // Said again and again, or followed by anything, it is neither heard nor kept.
    let repeated = b"cmd=abort exitcode=17\n".repeat(1000);
    assert_eq!(pmi.heard(0, &repeated), []);
    assert!(pmi.is_unfinished(0));
}

/// The sentence with which a conversation ends.
fn broken(sent: &[u8]) -> String {
    let mut pmi = Pmi::new(job(&[&[0, 1]], 0));
    answer(&mut pmi, 1, INIT);
    assert!(pmi.heard(1, b"cmd=barrier_in\n").is_empty());
    let mut acts = pmi.heard(0, sent);
    // The other does not wait for it any more.
    share(&acts.pop().unwrap());
    assert!(pmi.heard(0, b"cmd=get_maxes\n").is_empty());
    match acts.pop() {
        Some(PmiAct::Broken { rank: 0, reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_pmi_breaks_the_connection() {
    for (sent, word) in [
        (&b"hello\n"[..], "`hello` is no greeting"),
        (b"cmd=barrier_in\n", "is no greeting"),
        (b"cmd=init pmi_version=1\ncmd=init pmi_version=1\n", "`init` is no"),
        (b"cmd=init pmi_version=2\ncmd=barrier_in\n", "no length"),
        (b"cmd=init pmi_version=2\n 99999", "65536 are allowed"),
        (b"cmd=init pmi_version=1\ncmd=finalize\nx", "after its end"),
        (&[b'a'; 70_000], "more than 65536 bytes"),
    ] {
        let reason = broken(sent);
        assert!(reason.contains(word), "{reason}");
    }
}

#[test]
fn ranks_of_other_nodes_are_not_served() {
    let mut pmi = Pmi::new(job(&[&[0], &[1]], 0));
    assert!(pmi.heard(1, INIT.as_bytes()).is_empty());
    assert!(pmi.closed(7).is_empty());
    assert!(
        Pmi::new(job(&[&[0]], 5))
            .heard(0, INIT.as_bytes())
            .is_empty()
    );
}

#[test]
fn shares_of_all_nodes_fit_into_a_frame() {
    for (nodes, each) in [(1, 1), (4, 2), (1000, 64), (100_000, 1)] {
        let ranks = (0..nodes).map(|n| (n * each..(n + 1) * each).collect());
        let job = PmiJob {
            name: "1.0".to_owned(),
            tasks: nodes * each,
            node: 0,
            ranks: ranks.collect(),
        };
        let limit = share_limit(&job);
        assert!(limit <= limits::EXCHANGE_BYTES);
        assert!(limit * nodes as usize + 20 * nodes as usize <= limits::STEP_FRAME);
    }
}

#[test]
fn a_bad_share_is_told_at_the_barrier() {
    let mut pmi = Pmi::new(job(&[&[0], &[1]], 0));
    answer(&mut pmi, 0, INIT);
    pmi.heard(0, b"cmd=barrier_in\n");
    let acts = pmi.spread(&[(1, OsText(vec![9, 9]))]);
    let PmiAct::Answer { bytes, .. } = &acts[0] else {
        panic!("{acts:?}");
    };
    let text = String::from_utf8_lossy(bytes);
    assert!(text.starts_with("cmd=barrier_out rc=-1"), "{text}");
    assert!(text.contains("node_1"), "{text}");
}

/// A task that follows a short program: in every round it puts a value under its own key,
/// comes to the barrier, and then reads everybody's.
struct Client {
    two: bool,
    rank: u32,
    tasks: u32,
    rounds: u32,
    /// What it says next, and how much of it in one go.
    out: VecDeque<u8>,
    heard: Vec<u8>,
    round: u32,
    reads: u32,
    done: bool,
}

impl Client {
    fn new(rank: u32, tasks: u32, rounds: u32, two: bool) -> Self {
        let mut client = Self {
            two,
            rank,
            tasks,
            rounds,
            out: VecDeque::new(),
            heard: Vec::new(),
            round: 0,
            reads: 0,
            done: false,
        };
        let version = if two { 2 } else { 1 };
        let greeting = format!("cmd=init pmi_version={version} pmi_subversion=0\n");
        client.out.extend(greeting.bytes());
        client
    }

    fn say(&mut self, one: &str, two: &str) {
        let text = if self.two {
            packet(two)
        } else {
            format!("{one}\n")
        };
        self.out.extend(text.bytes());
    }

    /// Takes an answer, says what comes next.
    fn take(&mut self, answer: &str) {
        if answer.contains("put_result") || answer.contains("kvs-put-response") {
            self.say("cmd=barrier_in", "cmd=kvs-fence;");
        } else if answer.contains("get_result") || answer.contains("kvs-get-response") {
            let expected = format!("value={}-{}", self.reads, self.round);
            assert!(answer.trim_end_matches([';', '\n']).ends_with(&expected), "{answer}");
            self.reads += 1;
            self.go_on();
        } else if answer.contains("finalize") {
            self.done = true;
        } else if answer.contains("init") {
            self.put();
        } else {
            assert!(
                answer.contains("barrier_out rc=0") || answer.contains("kvs-fence-response;rc=0")
            );
            self.reads = 0;
            self.go_on();
        }
    }

    fn put(&mut self) {
        let (key, value) =
            (format!("k{}-{}", self.rank, self.round), format!("{}-{}", self.rank, self.round));
        let one = format!("cmd=put kvsname=12.0 key={key} value={value}");
        self.say(&one, &format!("cmd=kvs-put;key={key};value={value};"));
    }

    fn go_on(&mut self) {
        if self.reads < self.tasks {
            let key = format!("k{}-{}", self.reads, self.round);
            let one = format!("cmd=get kvsname=12.0 key={key}");
            return self.say(&one, &format!("cmd=kvs-get;jobid=12.0;srcid=-1;key={key};"));
        }
        self.round += 1;
        if self.round < self.rounds {
            return self.put();
        }
        self.say("cmd=finalize", "cmd=finalize;");
    }

    /// Complete answers among what came.
    fn hear(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        while let Some((length, text)) = self.complete() {
            self.heard.drain(..length);
            self.take(&text);
        }
    }

    fn complete(&self) -> Option<(usize, String)> {
        let line_end = self.heard.iter().position(|&b| b == b'\n');
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        if !self.two || self.heard.starts_with(b"cmd=") {
            return line_end.map(|end| (end + 1, text(&self.heard[..end])));
        }
        let head = self.heard.get(..6)?;
        let end = 6 + text(head).trim().parse::<usize>().unwrap();
        Some((end, text(self.heard.get(6..end)?)))
    }
}

/// A step of several nodes, whose exchanges are gathered as supervisors do.
struct Step {
    nodes: Vec<Pmi>,
    node_of: Vec<usize>,
    clients: Vec<Client>,
    shares: Vec<Option<OsText>>,
}

impl Step {
    fn new(node_of: &[usize], rounds: u32) -> Self {
        let nodes = node_of.iter().max().unwrap() + 1;
        let tasks = node_of.len() as u32;
        let of = |node| move |&rank: &u32| node_of[rank as usize] == node;
        let ranks: Vec<Vec<u32>> = (0..nodes)
            .map(|node| (0..tasks).filter(of(node)).collect())
            .collect();
        let pmi = |node| {
            Pmi::new(PmiJob {
                name: "12.0".to_owned(),
                tasks,
                node: node as u32,
                ranks: ranks.clone(),
            })
        };
        Self {
            nodes: (0..nodes).map(pmi).collect(),
            node_of: node_of.to_vec(),
            clients: (0..tasks)
                .map(|rank| Client::new(rank, tasks, rounds, rank % 3 == 1))
                .collect(),
            // A node without tasks is not there to bring anything.
            shares: ranks
                .iter()
                .map(|r| r.is_empty().then(OsText::default))
                .collect(),
        }
    }

    fn act(&mut self, node: usize, acts: Vec<PmiAct>) {
        for act in acts {
            match act {
                PmiAct::Answer { rank, bytes } => self.clients[rank as usize].hear(&bytes),
                PmiAct::Contribute(share) => {
                    assert!(self.shares[node].is_none());
                    self.shares[node] = Some(OsText(share));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Whichever task is picked says so many bytes of what it has to say.
    fn pick(&mut self, which: usize, most: usize) {
        let talkers: Vec<usize> = (0..self.clients.len())
            .filter(|&rank| !self.clients[rank].out.is_empty())
            .collect();
        if talkers.is_empty() {
            return self.spread();
        }
        let rank = talkers[which % talkers.len()];
        let out = &mut self.clients[rank].out;
        let length = out.len().min(most);
        let bytes: Vec<u8> = out.drain(..length).collect();
        let node = self.node_of[rank];
        let acts = self.nodes[node].heard(rank as u32, &bytes);
        self.act(node, acts);
    }

    /// Nobody has anything to say: all shares are there, or nobody ever goes on.
    fn spread(&mut self) {
        let parts: Vec<(u32, OsText)> = (0_u32..)
            .zip(&self.shares)
            .map(|(node, share)| (node, share.clone().expect("the step is stuck")))
            .collect();
        for node in 0..self.nodes.len() {
            if self.node_of.contains(&node) {
                self.shares[node] = None;
            }
        }
        for node in 0..self.nodes.len() {
            let acts = self.nodes[node].spread(&parts);
            self.act(node, acts);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// In whatever order tasks speak and wherever their bytes are cut: everybody reads
    /// what was put, in every round, and comes to the end.
    #[test]
    fn everybody_reads_what_was_put(
        node_of in proptest::collection::vec(0_usize..5, 1..12),
        rounds in 1_u32..4,
        picks in proptest::collection::vec((any::<usize>(), 1_usize..60), 40),
    ) {
        let mut step = Step::new(&node_of, rounds);
        for (which, most) in picks.into_iter().cycle() {
            if step.clients.iter().all(|client| client.done) {
                break;
            }
            step.pick(which, most);
        }
    }

    /// Whatever a task says and wherever it is cut: an answer or a sentence, and others
    /// are served as before.
    #[test]
    fn hostile_bytes_harm_nobody_else(
        start in 0_usize..4,
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                proptest::sample::select(PIECES).prop_map(|text| text.as_bytes().to_vec()),
            ],
            0..30,
        ),
    ) {
        let mut pmi = Pmi::new(job(&[&[0, 1], &[2]], 0));
        let greeting = ["", "cmd=init pmi_version=1\n", "cmd=init pmi_version=2\n", "cmd="][start];
        pmi.heard(0, greeting.as_bytes());
        for piece in &pieces {
            pmi.heard(0, piece);
        }
        prop_assert!(answer(&mut pmi, 1, INIT).contains("response_to_init"));
        let maxes = answer(&mut pmi, 1, "cmd=get_maxes\n");
        prop_assert!(maxes.starts_with("cmd=maxes"));
        pmi.heard(1, b"cmd=barrier_in\n");
        pmi.closed(0);
        let acts = pmi.spread(&[]);
        let expected = matches!(&acts[..], [PmiAct::Answer { rank: 1, .. }]);
        prop_assert!(expected, "{:?}", acts);
    }
}

/// Parts of messages, so that hostile ones get further than the first word.
const PIECES: &[&str] = &[
    "cmd=",
    "put",
    "get",
    " key=a",
    " value=b",
    "\n",
    "cmd=barrier_in\n",
    "mcmd=spawn\n",
    "endcmd\n",
    "cmd=get key=a\n",
    "cmd=put key=a value=b\n",
    "    14cmd=kvs-fence;",
    "    26cmd=kvs-put;key=a;value=b;",
    "    32",
    "cmd=info-getnodeattr;key=a;wait=T",
    "    41cmd=info-getnodeattr;key=a;wait=TRUE;thrid=",
    "cmd=finalize\n",
    "    13cmd=finalize;",
    "cmd=abort exitcode=9\n",
    ";;",
    "=",
    "     0",
    "    -1",
    "cmd=publish_name service=a port=b\n",
];
