use super::*;

const P: PartitionId = PartitionId(0);

fn ticket(user: &str, provider: &str, priority: u32, queued_at: i64) -> Ticket {
    Ticket {
        session: SessionId::trusted(user),
        user: Some(UserId::trusted(user)),
        provider: provider.into(),
        priority,
        queued_at: Timestamp(queued_at),
    }
}

fn run(name: impl ToString) -> RunId {
    RunId::trusted(&name.to_string())
}

fn bounds(node: usize) -> Bounds {
    Bounds { node, ..Bounds::default() }
}

fn called(admission: &mut Admission) -> Option<String> {
    admission.call().map(|(_, _, run)| run.to_string())
}

#[test]
fn nobody_overtakes_the_line() {
    let mut admission = Admission::new(bounds(1));
    let (a, b, c) = (run("a"), run("b"), run("c"));
    let of = ticket("u", "p", 0, 0);
    assert!(admission.try_begin(P, &a, &of));
    assert!(!admission.try_begin(P, &b, &of));
    admission.try_wait(P, &b, Timestamp(0)).expect("room");
    admission.stand_in_line(P, &b, of.clone());
    admission.release(P, &a);
    assert!(!admission.try_begin(P, &c, &of), "b is before c");
    assert_eq!(admission.call(), Some((P, of.session, b.clone())));
    admission.begun(P, &b, Timestamp(0));
    assert_eq!((admission.at_work(), admission.waiting()), (1, 0));
}

#[test]
fn a_full_queue_says_how_many_wait() {
    let mut admission = Admission::new(Bounds { waiting: 1, ..bounds(1) });
    admission.try_wait(P, &run("a"), Timestamp(0)).expect("room");
    assert_eq!(admission.try_wait(P, &run("b"), Timestamp(0)), Err(Full { waiting: 1, retry_after_s: 1 }));
}

#[test]
fn whoever_is_refused_is_told_how_long_the_line_takes_at_the_pace_of_late() {
    let mut admission = Admission::new(Bounds { waiting: 10, ..bounds(1) });
    let asked = |admission: &mut Admission, at_ms| match admission.try_wait(P, &run("refused"), Timestamp(at_ms)) {
        Ok(()) => panic!("there is no room"),
        Err(full) => full.retry_after_s,
    };
    for number in 0..10 {
        admission.try_wait(P, &run(number), Timestamp(1_000)).expect("room");
    }
    assert_eq!(asked(&mut admission, 1_000), 1, "nothing is known yet");
    assert_eq!(asked(&mut admission, 3_000), 20, "nobody had a turn in two seconds, and ten wait");
    for number in 10..60 {
        let now = Timestamp(3_000 + 500 * number);
        admission.begun(P, &run(number - 10), now);
        admission.try_wait(P, &run(number), now).expect("room");
    }
    assert_eq!(asked(&mut admission, 32_500), 5, "one every half second");
    assert_eq!(asked(&mut admission, 9_000_000), 600, "it stands still");
}

#[test]
fn a_lost_partition_gives_everything_back() {
    let mut admission = Admission::new(bounds(1));
    admission.force(P, &run("a"), &ticket("u", "p", 0, 0));
    admission.stand_in_line(P, &run("b"), ticket("u", "p", 0, 0));
    admission.forget(P);
    assert_eq!((admission.at_work(), admission.call()), (0, None));
    assert!(admission.of_user.is_empty() && admission.of_provider.is_empty());
}

#[test]
fn one_users_thousand_runs_do_not_delay_anothers_one() {
    let mut admission = Admission::new(bounds(1));
    for number in 0..1_000 {
        admission.stand_in_line(P, &run(number), ticket("many", "p", 0, number));
    }
    let first = called(&mut admission).expect("free");
    admission.stand_in_line(P, &run("one"), ticket("one", "p", 0, 5_000));
    admission.release(P, &run(first));
    let order: Vec<_> = (0..2)
        .map(|_| {
            let next = called(&mut admission).expect("free");
            admission.release(P, &run(&next));
            next
        })
        .collect();
    assert_eq!(order, ["1", "one"]);
}

#[test]
fn a_users_own_runs_keep_the_order_of_their_acceptance_whenever_they_come_into_line() {
    let mut admission = Admission::new(bounds(1));
    for number in [2, 0, 1] {
        admission.stand_in_line(P, &run(number), ticket("u", "p", 0, number));
    }
    for number in 0..3 {
        assert_eq!(called(&mut admission), Some(number.to_string()));
        admission.release(P, &run(number));
    }
}

#[test]
fn a_provider_without_room_holds_up_its_own_runs_only() {
    let providers = BTreeMap::from([("slow".into(), 1)]);
    let mut admission = Admission::new(Bounds { providers, ..bounds(10) });
    admission.stand_in_line(P, &run("slow 1"), ticket("u", "slow", 0, 1));
    admission.stand_in_line(P, &run("slow 2"), ticket("u", "slow", 0, 2));
    admission.stand_in_line(P, &run("quick"), ticket("u", "quick", 0, 3));
    assert_eq!(called(&mut admission).as_deref(), Some("slow 1"));
    assert_eq!(called(&mut admission).as_deref(), Some("quick"));
    assert_eq!(called(&mut admission), None);
    admission.release(P, &run("slow 1"));
    assert_eq!(called(&mut admission).as_deref(), Some("slow 2"));
}

#[test]
fn a_higher_priority_comes_first_whoever_asks() {
    let mut admission = Admission::new(bounds(1));
    admission.stand_in_line(P, &run("low"), ticket("a", "p", 0, 1));
    admission.stand_in_line(P, &run("usual"), ticket("a", "p", 1, 2));
    admission.stand_in_line(P, &run("high"), ticket("b", "q", 2, 3));
    for name in ["high", "usual", "low"] {
        assert_eq!(called(&mut admission).as_deref(), Some(name));
        admission.release(P, &run(name));
    }
}

#[test]
fn a_run_that_left_the_line_is_not_called() {
    let mut admission = Admission::new(bounds(1));
    admission.stand_in_line(P, &run("a"), ticket("u", "p", 0, 1));
    admission.release(P, &run("a"));
    assert_eq!(admission.call(), None);
}

/// A small generator: the same numbers every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % limit as u64).expect("small")
    }
}

const USERS: [&str; 4] = ["a", "b", "c", "d"];
const PROVIDERS: [&str; 3] = ["x", "y", "z"];

/// Any arrivals, ends and departures in any order: the bounds always hold, a slot that somebody in line could have is
/// never left free, and whoever could have been served all the while is passed by each other user only once.
#[test]
fn whatever_happens_the_bounds_hold_and_no_user_starves() {
    for seed in 0..300 {
        let mut chance = Chance(seed);
        let providers = BTreeMap::from([("x".into(), 1 + chance.below(3)), ("y".into(), 1 + chance.below(3))]);
        let bounds = Bounds { node: 1 + chance.below(6), user: chance.below(4), providers, waiting: 0 };
        let mut world = World { admission: Admission::new(bounds), ..World::default() };
        for number in 0..400 {
            world.step(&mut chance, number);
            world.check();
        }
        world.drain();
    }
}

struct World {
    admission: Admission,
    tickets: BTreeMap<RunId, Ticket>,
    in_line: BTreeSet<RunId>,
    at_work: BTreeSet<RunId>,
    /// How often each user was passed by each other one while it could have been served.
    passed: BTreeMap<(User, User), usize>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            admission: Admission::new(bounds(1)),
            tickets: BTreeMap::new(),
            in_line: BTreeSet::new(),
            at_work: BTreeSet::new(),
            passed: BTreeMap::new(),
        }
    }
}

impl World {
    fn step(&mut self, chance: &mut Chance, number: i64) {
        match chance.below(5) {
            0..=1 => {
                let ticket = ticket(USERS[chance.below(4)], PROVIDERS[chance.below(3)], 0, number);
                let run = run(number);
                if self.admission.try_begin(P, &run, &ticket) {
                    self.at_work.insert(run.clone());
                } else {
                    self.admission.stand_in_line(P, &run, ticket.clone());
                    self.in_line.insert(run.clone());
                }
                self.tickets.insert(run, ticket);
            }
            2 => {
                let from = if chance.below(3) == 0 { &mut self.in_line } else { &mut self.at_work };
                let at = chance.below(from.len().max(1));
                if let Some(run) = from.iter().nth(at).cloned() {
                    from.remove(&run);
                    self.admission.release(P, &run);
                }
            }
            3 => {
                if let Some(run) = self.at_work.pop_first() {
                    self.admission.give_back(P, &run);
                    self.admission.stand_in_line(P, &run, self.tickets[&run].clone());
                    self.in_line.insert(run);
                }
            }
            _ => {}
        }
        let in_line: BTreeSet<_> = self.in_line.iter().map(|run| self.tickets[run].user.clone()).collect();
        // Who has left the line and comes back is new.
        self.passed.retain(|(passed, _), _| in_line.contains(passed));
        while self.call() {}
    }

    fn call(&mut self) -> bool {
        let could: Vec<User> = self.could_be_served().iter().map(|run| self.tickets[run].user.clone()).collect();
        let Some((_, _, run)) = self.admission.call() else { return false };
        let user = self.tickets[&run].user.clone();
        for other in could.into_iter().filter(|other| *other != user).collect::<BTreeSet<_>>() {
            let times = self.passed.entry((other, user.clone())).or_default();
            *times += 1;
            assert!(*times <= 1, "a user was passed twice by another");
        }
        self.passed.retain(|(passed, _), _| *passed != user);
        let of = |run: &RunId| (self.tickets[run].user.clone(), self.tickets[run].provider.clone());
        let own = self.in_line.iter().filter(|other| of(other) == of(&run));
        let oldest = own.min_by_key(|other| self.tickets[*other].queued_at);
        assert_eq!(oldest, Some(&run), "a user's own runs keep their order");
        self.in_line.remove(&run);
        self.at_work.insert(run);
        true
    }

    fn count(&self, of: impl Fn(&Ticket) -> bool) -> usize {
        self.at_work.iter().filter(|run| of(&self.tickets[*run])).count()
    }

    fn could_be_served(&self) -> Vec<RunId> {
        let bounds = &self.admission.bounds;
        let is_room = |run: &&RunId| {
            let ticket = &self.tickets[*run];
            let provider = bounds.providers.get(&ticket.provider).copied().unwrap_or(0);
            !is_full(self.at_work.len(), bounds.node)
                && !is_full(self.count(|other| other.user == ticket.user), bounds.user)
                && !is_full(self.count(|other| other.provider == ticket.provider), provider)
        };
        self.in_line.iter().filter(is_room).cloned().collect()
    }

    fn check(&self) {
        let bounds = &self.admission.bounds;
        assert_eq!(self.admission.at_work(), self.at_work.len());
        assert!(self.at_work.len() <= bounds.node);
        for user in USERS.map(|user| Some(UserId::trusted(user))) {
            assert!(bounds.user == 0 || self.count(|ticket| ticket.user == user) <= bounds.user);
        }
        for (provider, bound) in &bounds.providers {
            assert!(self.count(|ticket| ticket.provider == *provider) <= *bound);
        }
        assert_eq!(self.could_be_served(), Vec::<RunId>::new(), "a slot is free for somebody in line");
    }

    fn drain(&mut self) {
        while let Some(run) = self.at_work.pop_first() {
            self.admission.release(P, &run);
            while self.call() {}
        }
        assert!(self.in_line.is_empty() && self.admission.line.next(|_| false).is_none());
        assert!(self.admission.of_user.is_empty() && self.admission.of_provider.is_empty());
    }
}
