use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

/// A level with a simulated clock and requests that each take as long as their flow says.
struct Sim {
    set: QueueSet<Flow>,
    now: u64,
    running: Vec<(u64, Flow, Ticket)>,
    /// Flows in the order in which their requests began to run.
    began: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Flow {
    name: &'static str,
    hash: u64,
    seats: u32,
    takes_ns: u64,
}

fn flow(name: &'static str, hash: u64) -> Flow {
    Flow { name, hash, seats: 1, takes_ns: MS }
}

fn queuing(queues: u32, hand_size: u32, queue_length_limit: u32) -> Discipline {
    Discipline::Queue(Queuing { queues, hand_size, queue_length_limit })
}

impl Sim {
    fn new(discipline: Discipline, limit: u32) -> Self {
        Self { set: QueueSet::new(discipline, limit, 0), now: 0, running: Vec::new(), began: Vec::new() }
    }

    fn arrive(&mut self, flow: Flow) -> Arrival {
        let arrival = self.set.arrive(self.now, flow.hash, flow.seats, || flow);
        match arrival {
            Arrival::Runs(ticket) => {
                self.began.push(flow.name);
                let copy = Ticket { queue: ticket.queue, ..ticket };
                self.running.push((self.now + flow.takes_ns, flow, ticket));
                Arrival::Runs(copy)
            }
            other => other,
        }
    }

    /// Ends the request that ends next; false when none runs.
    fn step(&mut self) -> Option<Flow> {
        let at = self.running.iter().enumerate().min_by_key(|(_, (ends, ..))| *ends)?.0;
        let (ends, flow, ticket) = self.running.remove(at);
        self.now = self.now.max(ends);
        let (now, running, began) = (self.now, &mut self.running, &mut self.began);
        self.set.finish(now, &ticket, |flow, ticket| {
            began.push(flow.name);
            running.push((now + flow.takes_ns, flow, ticket));
        });
        Some(flow)
    }

    fn count(&self, name: &str) -> usize {
        self.began.iter().filter(|began| **began == name).count()
    }
}

#[test]
fn a_level_that_rejects_runs_as_many_as_it_has_seats() {
    let mut sim = Sim::new(Discipline::Reject, 2);
    assert!(matches!(sim.arrive(flow("a", 0)), Arrival::Runs(_)));
    assert!(matches!(sim.arrive(flow("a", 0)), Arrival::Runs(_)));
    assert_eq!(sim.arrive(flow("a", 0)), Arrival::Rejected(Reason::ConcurrencyLimit));
    sim.step();
    assert!(matches!(sim.arrive(flow("a", 0)), Arrival::Runs(_)));
}

#[test]
fn an_exempt_level_runs_everybody() {
    let mut sim = Sim::new(Discipline::Exempt, 0);
    for _ in 0..1000 {
        assert!(matches!(sim.arrive(flow("a", 0)), Arrival::Runs(_)));
    }
    assert_eq!(sim.set.totals().executing, 1000);
}

#[test]
fn a_flow_that_floods_does_not_delay_the_one_request_of_another() {
    let mut sim = Sim::new(queuing(8, 1, 200), 4);
    for _ in 0..100 {
        sim.arrive(flow("flood", 0));
    }
    for _ in 0..10 {
        sim.step();
    }
    let begun = sim.began.len();
    assert!(matches!(sim.arrive(flow("quiet", 1)), Arrival::Waits(_)));
    sim.step();
    assert_eq!(sim.began[begun..], ["quiet"], "the very next seat goes to the quiet flow");
}

#[test]
fn two_greedy_flows_share_the_seats_equally_whatever_they_ask_for() {
    let mut sim = Sim::new(queuing(8, 1, 10_000), 4);
    for _ in 0..900 {
        sim.arrive(flow("greedy", 0));
    }
    for _ in 0..100 {
        sim.arrive(flow("modest", 1));
    }
    for _ in 0..100 {
        sim.step();
    }
    let (greedy, modest) = (sim.count("greedy"), sim.count("modest"));
    assert!(greedy.abs_diff(modest) <= 8, "greedy {greedy}, modest {modest}");
}

#[test]
fn a_flow_of_long_requests_gets_as_much_time_not_as_many_requests() {
    let mut sim = Sim::new(queuing(8, 1, 10_000), 2);
    for _ in 0..2000 {
        sim.arrive(Flow { takes_ns: 10 * MS, ..flow("long", 0) });
        sim.arrive(flow("short", 1));
    }
    while sim.now < 1000 * MS {
        sim.step();
    }
    // Half of two seats for a second each: a hundred long ones, a thousand short ones.
    let (long, short) = (sim.count("long"), sim.count("short"));
    assert!((90..=110).contains(&long), "long {long}");
    assert!((900..=1100).contains(&short), "short {short}");
}

#[test]
fn wide_requests_pay_for_all_their_seats() {
    let mut sim = Sim::new(queuing(8, 1, 10_000), 4);
    for _ in 0..500 {
        sim.arrive(Flow { seats: 4, ..flow("wide", 0) });
        sim.arrive(flow("narrow", 1));
    }
    for _ in 0..200 {
        sim.step();
    }
    let (wide, narrow) = (sim.count("wide"), sim.count("narrow"));
    assert!(narrow >= 3 * wide && narrow <= 5 * wide, "wide {wide}, narrow {narrow}");
}

#[test]
fn a_request_wider_than_the_level_runs_alone() {
    let mut sim = Sim::new(queuing(1, 1, 10), 2);
    sim.arrive(flow("a", 0));
    assert!(matches!(sim.arrive(Flow { seats: 5, ..flow("wide", 0) }), Arrival::Waits(_)));
    assert!(matches!(sim.arrive(flow("b", 0)), Arrival::Waits(_)), "nobody passes it by");
    sim.step();
    assert_eq!(sim.began, ["a", "wide"]);
    sim.step();
    assert_eq!(sim.began, ["a", "wide", "b"]);
}

#[test]
fn a_level_without_seats_holds_its_requests_until_they_give_up() {
    let mut sim = Sim::new(queuing(1, 1, 10), 0);
    let Arrival::Waits(place) = sim.arrive(flow("a", 0)) else { panic!("should wait") };
    assert!(sim.step().is_none());
    assert!(sim.set.cancel(sim.now, place));
}

#[test]
fn a_full_queue_rejects_and_an_idle_flow_still_gets_in() {
    let mut sim = Sim::new(queuing(8, 1, 3), 1);
    for _ in 0..4 {
        sim.arrive(flow("flood", 0));
    }
    assert_eq!(sim.arrive(flow("flood", 0)), Arrival::Rejected(Reason::QueueFull));
    assert!(matches!(sim.arrive(flow("quiet", 1)), Arrival::Waits(_)));
}

#[test]
fn a_flow_spreads_over_its_hand() {
    let mut sim = Sim::new(queuing(64, 4, 5), 1);
    // One runs, then four queues of five.
    let outcomes: Vec<Arrival> = (0..22).map(|_| sim.arrive(flow("flood", 123_456_789))).collect();
    assert_eq!(outcomes.iter().filter(|o| matches!(o, Arrival::Waits(_))).count(), 20);
    assert_eq!(outcomes.last(), Some(&Arrival::Rejected(Reason::QueueFull)));
}

#[test]
fn whoever_gives_up_waiting_is_forgotten_and_whoever_runs_cannot() {
    let mut sim = Sim::new(queuing(1, 1, 10), 1);
    sim.arrive(flow("a", 0));
    let Arrival::Waits(first) = sim.arrive(flow("b", 0)) else { panic!("should wait") };
    let Arrival::Waits(second) = sim.arrive(flow("c", 0)) else { panic!("should wait") };
    assert!(sim.set.cancel(sim.now, first));
    assert!(!sim.set.cancel(sim.now, first));
    sim.step();
    assert_eq!(sim.began, ["a", "c"]);
    assert!(!sim.set.cancel(sim.now, second));
}

#[test]
fn more_seats_let_waiting_requests_run_at_once_and_fewer_take_nothing_away() {
    let mut sim = Sim::new(queuing(1, 1, 10), 1);
    for _ in 0..4 {
        sim.arrive(flow("a", 0));
    }
    let mut woken = Vec::new();
    sim.set.reconfigure(0, queuing(1, 1, 10), 3, |_, ticket| woken.push(ticket));
    assert_eq!(woken.len(), 2);
    sim.set.reconfigure(0, queuing(1, 1, 10), 1, |_, ticket| woken.push(ticket));
    assert_eq!(sim.set.totals().executing, 3);
    for ticket in &woken {
        sim.set.finish(MS, ticket, |_, _| panic!("the limit is one"));
    }
    assert_eq!(
        sim.set.totals(),
        Totals { waiting: 1, executing: 1, seats_in_use: 1, dispatched: 3, ..Totals::default() }
    );
}

proptest! {
    /// Whatever happens, seats stay within the limit (but for a request wider than it), nobody is lost and all is given back.
    #[test]
    fn seats_are_neither_lost_nor_made(
        actions in prop::collection::vec((0_u64..6, 1_u32..4, 0_u64..5), 1..200), limit in 1_u32..6,
    ) {
        let mut sim = Sim::new(queuing(4, 2, 5), limit);
        let (mut arrived, mut rejected, mut ended) = (0, 0, 0);
        for (hash, seats, action) in actions {
            if action < 3 {
                arrived += 1;
                let flow = Flow { seats, ..flow("f", hash.wrapping_mul(0x9E37_79B9_7F4A_7C15)) };
                rejected += usize::from(matches!(sim.arrive(flow), Arrival::Rejected(_)));
            } else {
                ended += usize::from(sim.step().is_some());
            }
            let totals = sim.set.totals();
            prop_assert!(totals.seats_in_use <= limit || totals.executing == 1);
            prop_assert_eq!(totals.executing as usize, sim.running.len());
            prop_assert_eq!(arrived, rejected + ended + totals.executing as usize + totals.waiting as usize);
        }
        while sim.step().is_some() {}
        let totals = sim.set.totals();
        prop_assert_eq!((totals.executing, totals.waiting, totals.seats_in_use), (0, 0, 0));
        prop_assert_eq!(sim.set.queues().count(), 0);
    }
}
