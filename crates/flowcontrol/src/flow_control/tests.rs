use bailiwick_machinery::user::UserInfo;
use serde_json::json;

use super::*;
use crate::matching::Target;
use crate::queue_set::Reason;

/// As the mandatory objects are: everybody in the catch-all level, system:masters exempt.
fn mandatory() -> Vec<Value> {
    let everything = |group: &str| {
        json!([{
            "subjects": [{"kind": "Group", "group": {"name": group}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }])
    };
    vec![
        level("exempt", json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}})),
        level(
            "catch-all",
            json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}}),
        ),
        schema("exempt", "exempt", 1, everything("system:masters")),
        schema("catch-all", "catch-all", 10_000, everything("system:authenticated")),
    ]
}

fn level(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "uid": format!("{name}-level-uid")}, "spec": spec})
}

fn queued(name: &str, shares: u32, lendable: u32, borrowing: Option<u32>) -> PriorityLevel {
    let mut limited = json!({
        "nominalConcurrencyShares": shares, "lendablePercent": lendable,
        "limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 1, "queueLengthLimit": 100}},
    });
    if let Some(percent) = borrowing {
        limited["borrowingLimitPercent"] = percent.into();
    }
    PriorityLevel::deserialize_value(&level(name, json!({"type": "Limited", "limited": limited}))).unwrap()
}

fn schema(name: &str, level: &str, precedence: i32, rules: Value) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("{name}-schema-uid")},
        "spec": {
            "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"}, "rules": rules,
        },
    })
}

/// Requests of one user go to a level.
fn user_schema(name: &str, level: &str, user: &str, precedence: i32) -> FlowSchema {
    let rules = json!([{
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }]);
    FlowSchema::deserialize_value(&schema(name, level, precedence, rules)).unwrap()
}

fn user(name: &str) -> UserInfo {
    UserInfo { name: name.into(), groups: vec![UserInfo::AUTHENTICATED.into()], ..UserInfo::default() }
}

const PATIENCE: Duration = Duration::from_secs(15);

async fn ask(control: &FlowControl, user: &UserInfo, seats: u32) -> Outcome {
    let request = Request { user, project: "", verb: "get", target: Target::Path("/x") };
    let mut outcome = control.admit(&request, |_| seats, || PATIENCE).await.unwrap();
    if let Ok(seat) = &mut outcome.seat {
        drop(seat.take_turn());
    }
    outcome
}

/// As many seats as can be had without waiting.
async fn fill(control: &FlowControl, user: &UserInfo) -> Vec<Seat> {
    let mut seats = Vec::new();
    loop {
        tokio::select! {
            biased;
            outcome = ask(control, user, 1) => match outcome.seat {
                Ok(seat) => seats.push(seat),
                Err(_) => return seats,
            },
            () = std::future::ready(()) => return seats,
        }
    }
}

fn limit(control: &FlowControl, level: &str) -> u32 {
    control.configuration.load().levels[level].level.lock().limit()
}

#[tokio::test]
async fn without_objects_masters_are_exempt_and_all_others_catch_all() {
    let control = FlowControl::new(10, &mandatory());
    let mut admin = user("admin");
    admin.groups.push(UserInfo::MASTERS.into());
    let seats: Vec<Outcome> = futures_of(&control, &admin, 100).await;
    assert!(seats.iter().all(|outcome| outcome.seat.is_ok()));
    assert_eq!(seats[0].classified.flow_schema_uid, "exempt-schema-uid");

    let alice = user("alice");
    let held: Vec<Outcome> = futures_of(&control, &alice, 10).await;
    assert!(held.iter().all(|outcome| outcome.seat.is_ok()));
    let refused = ask(&control, &alice, 1).await;
    assert_eq!(refused.classified.priority_level_uid, "catch-all-level-uid");
    let refused = refused.seat.unwrap_err();
    assert_eq!(refused, Refused { reason: Reason::ConcurrencyLimit, retry_after_seconds: 1 });
}

async fn futures_of(control: &FlowControl, user: &UserInfo, count: usize) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for _ in 0..count {
        outcomes.push(ask(control, user, 1).await);
    }
    outcomes
}

#[tokio::test]
async fn the_lowest_precedence_wins_then_the_name_and_schemas_without_a_level_do_not_count() {
    let control = FlowControl::new(100, &mandatory());
    control.level_changed("one", Some(queued("one", 10, 0, None)));
    control.level_changed("two", Some(queued("two", 10, 0, None)));
    let classified = async |control: &FlowControl| ask(control, &user("alice"), 1).await.classified.priority_level_uid;
    control.schema_changed("b", Some(user_schema("b", "one", "alice", 500)));
    control.schema_changed("a", Some(user_schema("a", "two", "alice", 500)));
    assert_eq!(classified(&control).await, "two-level-uid");
    control.schema_changed("b", Some(user_schema("b", "one", "alice", 499)));
    assert_eq!(classified(&control).await, "one-level-uid");
    control.level_changed("one", None);
    assert_eq!(classified(&control).await, "two-level-uid");
    control.schema_changed("a", None);
    assert_eq!(classified(&control).await, "catch-all-level-uid");
    control.level_changed("one", Some(queued("one", 10, 0, None)));
    assert_eq!(classified(&control).await, "one-level-uid");
}

#[tokio::test]
async fn seats_are_divided_by_shares() {
    let control = FlowControl::new(600, &mandatory());
    control.level_changed("small", Some(queued("small", 15, 0, Some(0))));
    control.level_changed("large", Some(queued("large", 80, 0, Some(0))));
    let configuration = control.configuration.load();
    assert_eq!(configuration.levels["small"].nominal, 90);
    assert_eq!(configuration.levels["large"].nominal, 480);
    assert_eq!(configuration.levels["catch-all"].nominal, 30);
}

#[tokio::test(start_paused = true)]
async fn a_level_borrows_what_others_lend_and_they_get_back_what_they_need() {
    let control = FlowControl::new(105, &mandatory());
    control.level_changed("lender", Some(queued("lender", 50, 60, None)));
    control.level_changed("borrower", Some(queued("borrower", 50, 0, Some(50))));
    for (name, level) in [("lend", "lender"), ("borrow", "borrower")] {
        control.schema_changed(name, Some(user_schema(name, level, name, 100)));
    }
    let step = async || {
        tokio::time::advance(REBALANCE_PERIOD).await;
        control.rebalance();
    };
    // Greedy: eighty want to run, and the level has fifty of its own, seventy-five with what it may borrow.
    let greedy = user("borrow");
    let mut held = fill(&control, &greedy).await;
    let mut more: Vec<_> = (0..40).map(|_| Box::pin(ask(&control, &greedy, 1))).collect();
    for waiting in &mut more {
        assert!(futures_poll(waiting).await.is_none());
    }
    step().await;
    assert_eq!(limit(&control, "borrower"), 75, "its upper limit");
    assert!(limit(&control, "lender") >= 20, "its lower limit");
    for waiting in &mut more {
        held.extend(futures_poll(waiting).await.and_then(|outcome| outcome.seat.ok()));
    }
    assert!(held.len() <= 75);
    // The lender wants all of its own again.
    let lent = fill(&control, &user("lend")).await;
    let mut wanting: Vec<_> = (0..60).map(|_| Box::pin(ask(&control, user_static("lend"), 1))).collect();
    for waiting in &mut wanting {
        assert!(futures_poll(waiting).await.is_none());
    }
    step().await;
    assert!(limit(&control, "lender") >= 50, "{}", limit(&control, "lender"));
    assert!(limit(&control, "borrower") >= 50);
    drop((held, lent, more, wanting));
}

fn user_static(name: &str) -> &'static UserInfo {
    Box::leak(Box::new(user(name)))
}

/// The outcome if it is there already.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waited_too_long_is_refused_and_leaves_no_trace() {
    let control = FlowControl::new(6, &mandatory());
    control.level_changed("one", Some(queued("one", 1, 0, Some(0))));
    control.schema_changed("s", Some(user_schema("s", "one", "alice", 100)));
    let alice = user("alice");
    let held = ask(&control, &alice, 1).await.seat;
    assert!(held.is_ok());
    let refused = ask(&control, &alice, 1).await.seat.unwrap_err();
    assert_eq!(refused.reason, Reason::TimeOut);
    let totals = control.configuration.load().levels["one"].level.lock().totals();
    assert_eq!((totals.waiting, totals.executing, totals.timed_out), (0, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_while_it_waits_is_forgotten_and_its_turn_goes_to_the_next() {
    let control = FlowControl::new(6, &mandatory());
    control.level_changed("one", Some(queued("one", 1, 0, Some(0))));
    control.schema_changed("s", Some(user_schema("s", "one", "alice", 100)));
    let alice = user("alice");
    let held = fill(&control, &alice).await;
    let (mut gone, mut gone_late, mut stays) =
        (Box::pin(ask(&control, &alice, 1)), Box::pin(ask(&control, &alice, 1)), Box::pin(ask(&control, &alice, 1)));
    for waiting in [&mut gone, &mut gone_late, &mut stays] {
        assert!(futures_poll(waiting).await.is_none());
    }
    drop(gone);
    drop(held);
    // Its turn has come, but it does not know yet.
    drop(gone_late);
    assert!(futures_poll(&mut stays).await.is_some_and(|outcome| outcome.seat.is_ok()));
    drop(stays);
    let totals = control.configuration.load().levels["one"].level.lock().totals();
    assert_eq!((totals.waiting, totals.executing, totals.seats_in_use), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_reader_stalls_gives_its_seat_back() {
    let control = FlowControl::new(6, &mandatory());
    control.level_changed("one", Some(queued("one", 1, 0, Some(0))));
    control.schema_changed("s", Some(user_schema("s", "one", "alice", 100)));
    let alice = user("alice");
    let stream = fill(&control, &alice).await.pop().unwrap().streaming();
    for _ in 0..5 {
        tokio::time::advance(Duration::from_millis(900)).await;
        stream.moved();
        control.rebalance();
    }
    let mut next = Box::pin(ask(&control, &alice, 1));
    assert!(futures_poll(&mut next).await.is_none(), "a stream that moves keeps its seat");
    tokio::time::advance(Duration::from_millis(1100)).await;
    control.rebalance();
    assert!(futures_poll(&mut next).await.is_some_and(|outcome| outcome.seat.is_ok()));
}

#[tokio::test]
async fn a_wide_request_counts_as_no_more_than_its_level_allows() {
    let control = FlowControl::new(105, &mandatory());
    control.level_changed("one", Some(queued("one", 100, 0, Some(0))));
    control.schema_changed("s", Some(user_schema("s", "one", "alice", 100)));
    let outcome = ask(&control, &user("alice"), 1000).await;
    assert!(outcome.seat.is_ok());
    let totals = control.configuration.load().levels["one"].level.lock().totals();
    assert_eq!(totals.seats_in_use, 10);
}

#[tokio::test(start_paused = true)]
async fn turns_go_to_the_flow_that_had_least_and_not_to_who_asked_first() {
    let control = FlowControl::new(600, &mandatory());
    control.level_changed("one", Some(queued("one", 100, 0, None)));
    for name in ["noisy", "quiet"] {
        control.schema_changed(name, Some(user_schema(name, "one", name, 100)));
    }
    let (noisy, quiet) = (user("noisy"), user("quiet"));
    let request = |user| Request { user, project: "", verb: "get", target: Target::Path("/x") };
    let (noise, calm) = (request(&noisy), request(&quiet));
    let take = async |request: &Request<'_>| control.admit(request, |_| 1, || PATIENCE).await.unwrap().seat.unwrap();
    let mut computing = Vec::new();
    for _ in 0..turns_max() {
        computing.push(take(&noise).await);
    }
    let mut waiting: Vec<_> = (0..50).map(|_| Box::pin(take(&noise))).collect();
    for noise in &mut waiting {
        assert!(futures_poll(noise).await.is_none(), "there are no more turns");
    }
    let mut next = Box::pin(take(&calm));
    assert!(futures_poll(&mut next).await.is_none());
    drop(computing.pop().unwrap().take_turn());
    assert!(futures_poll(&mut next).await.is_some(), "the quiet one comes before fifty others");
}

#[tokio::test]
async fn metrics_and_tables_name_levels_and_schemas() {
    let control = FlowControl::new(6, &mandatory());
    let alice = user("alice");
    let _held = futures_of(&control, &alice, 7).await;
    let mut text = String::new();
    control.write_metrics(&mut text);
    let labels = "{flow_schema=\"catch-all\",priority_level=\"catch-all\"";
    for line in [
        format!("apiserver_flowcontrol_current_executing_requests{labels}}} 6"),
        format!("apiserver_flowcontrol_rejected_requests_total{labels},reason=\"concurrency-limit\"}} 1"),
        "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"catch-all\"} 6".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let table = control.dump(crate::Dump::PriorityLevels);
    let row = table.lines().nth(1).unwrap_or_default().split(",").map(str::trim).collect::<Vec<_>>();
    assert_eq!(row, ["catch-all", "0", "false", "false", "0", "6", "6", "1", "0", "0"], "{table}");
}
