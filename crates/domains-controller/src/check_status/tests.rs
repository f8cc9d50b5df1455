use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("in range")
}

fn outlook(points: &[(&str, Concern)]) -> Outlook {
    let point = |(topic, concern): &(&str, Concern)| Point {
        topic: (*topic).to_owned(),
        concern: *concern,
        text: format!("{topic} is wrong"),
    };
    Outlook { points: points.iter().map(point).collect(), ..Outlook::default() }
}

fn unseen(topic: &str) -> Outlook {
    Outlook { unseen: vec![topic.to_owned()], ..Outlook::default() }
}

fn plan(status: &mut CheckStatus, outlook: &Outlook, second: i64) -> Vec<String> {
    let notices = status.take(outlook, Story::Plan, "the Gateway edge", at(second));
    notices.into_iter().map(|notice| format!("{} {}", notice.reason, notice.note)).collect()
}

fn stands(status: &CheckStatus) -> (&str, &str) {
    status.condition().map(|one| (one.status.as_str(), one.reason.as_str())).expect("a condition")
}

#[test]
fn a_plan_is_told_when_it_is_fulfilled_and_when_it_is_broken_and_once_each() {
    let (mut status, missing) = (CheckStatus::default(), outlook(&[("www", Concern::Warning)]));
    assert!(plan(&mut status, &missing, 0).is_empty(), "it was never fulfilled");
    assert_eq!(stands(&status), ("False", "NotFulfilled"));
    let fulfilled = "PlanFulfilled the Gateway edge: everything is as planned, for everybody";
    assert_eq!(plan(&mut status, &Outlook::default(), 60), [fulfilled]);
    assert!(plan(&mut status, &Outlook::default(), 120).is_empty());
    let broken = "PlanBroken the Gateway edge: www is wrong; it was as planned since 2027-01-15T08:01:00Z";
    assert_eq!(plan(&mut status, &missing, 3600), [broken]);
    assert_eq!(stands(&status), ("False", "Broken"));
    assert_eq!(status.troubles[0].since, at(3600));
    assert!(plan(&mut status, &missing, 7200).is_empty());
    assert_eq!(stands(&status), ("False", "Broken"));
    assert_eq!(plan(&mut status, &Outlook::default(), 7300), [fulfilled]);
}

#[test]
fn whether_live_names_are_served_is_a_condition_of_its_own() {
    let mut status = CheckStatus::default();
    let of = |served: Outlook| Outlook { served: Some(Box::new(served)), ..Outlook::default() };
    let served = |status: &CheckStatus| {
        let found = status.conditions.iter().find(|condition| condition.kind == SERVED);
        found.map(|one| (one.status.clone(), one.reason.clone()))
    };
    let failing = of(outlook(&[("www", Concern::Warning)]));
    let (yes, no) = (("True".to_owned(), "Served".to_owned()), ("False".to_owned(), "NotServed".to_owned()));
    let fulfilled = "PlanFulfilled the Gateway edge: everything is as planned, for everybody";
    assert_eq!(plan(&mut status, &failing, 0), [fulfilled], "the records are right, and the service is new");
    assert_eq!((served(&status), stands(&status)), (Some(no.clone()), ("True", "Fulfilled")));
    let restored = "ServiceRestored the Gateway edge: visitors are served, from every place that was asked";
    assert_eq!(plan(&mut status, &of(Outlook::default()), 60), [restored]);
    assert_eq!(served(&status), Some(yes.clone()));
    assert!(plan(&mut status, &of(Outlook::default()), 120).is_empty());
    let told = "ServiceFailing the Gateway edge: www is wrong; it was served since 2027-01-15T08:01:00Z";
    assert_eq!(plan(&mut status, &failing, 180), [told]);
    assert!(plan(&mut status, &failing, 240).is_empty(), "once");
    assert!(plan(&mut status, &of(unseen("www")), 300).is_empty(), "nobody looked");
    assert_eq!(served(&status), Some(("False".to_owned(), "NotServed".to_owned())), "so it has not ended");
    let away = Outlook { away: vec!["www".to_owned()], ..Outlook::default() };
    assert!(plan(&mut status, &of(away), 310).is_empty(), "nor by the place's going away");
    assert_eq!(plan(&mut status, &of(Outlook::default()), 320).len(), 1, "mended");
    assert!(plan(&mut status, &of(unseen("www")), 330).is_empty());
    assert_eq!(served(&status), Some(("Unknown".to_owned(), "NotObserved".to_owned())));
    let told = "ServiceFailing the Gateway edge: www is wrong";
    assert_eq!(plan(&mut status, &failing, 340), [told], "whatever could not be seen in between");
    plan(&mut status, &Outlook::default(), 360);
    assert_eq!(served(&status), None, "nothing is served by HTTPS any more");
}

#[test]
fn silence_and_caches_neither_fulfil_a_plan_nor_break_it() {
    let mut status = CheckStatus::default();
    let waiting = Outlook { over_at: Some(at(300)), ..outlook(&[("www", Concern::Notice)]) };
    assert!(plan(&mut status, &unseen("www"), 0).is_empty());
    assert!(plan(&mut status, &waiting, 10).is_empty());
    assert_eq!(stands(&status), ("False", "Waiting"));
    status.plan_next(SignedDuration::from_hours(1), Owned::Proved, at(10));
    assert_eq!(status.next_run, Some(at(301)), "when it should be over");
    let told = plan(&mut status, &Outlook::default(), 302);
    assert!(
        told[0].ends_with("that was forecast for 2027-01-15T08:05:00Z, and seen at 2027-01-15T08:05:02Z"),
        "{told:?}"
    );
    assert!(plan(&mut status, &unseen("www"), 400).is_empty());
    assert_eq!(stands(&status), ("True", "Fulfilled"));
    // A trouble that could not be seen has not ended.
    plan(&mut status, &outlook(&[("www", Concern::Warning)]), 500);
    assert!(plan(&mut status, &unseen("www"), 600).is_empty());
    assert_eq!((stands(&status), status.troubles.len()), (("False", "Broken"), 1));
}

#[test]
fn troubles_that_come_and_go_are_told_after_the_first_run() {
    let mut status = CheckStatus::default();
    let mut run = |points: &[(&str, Concern)], second: i64| -> Vec<String> {
        let notices = status.take(&outlook(points), Story::Health, "good.com", at(second));
        notices.into_iter().map(|notice| format!("{} {}", notice.reason, notice.note)).collect()
    };
    assert!(run(&[("a", Concern::Warning)], 0).is_empty());
    let told = run(&[("b", Concern::Critical)], 60);
    let ended = "TroubleEnded good.com: mended, after it was so since 2027-01-15T08:00:00Z: a is wrong";
    assert_eq!(told, [ended, "TroubleBegan good.com: b is wrong"]);
    assert!(run(&[("b", Concern::Critical)], 120).is_empty());
}

#[test]
fn it_is_run_at_its_turn_and_sooner_while_somebody_is_at_it_or_asks() {
    let hour = SignedDuration::from_hours(1);
    let mut status = CheckStatus { completion_time: Some(at(0)), ..CheckStatus::default() };
    plan(&mut status, &Outlook::default(), 0);
    status.plan_next(hour, Owned::Proved, at(0));
    assert_eq!(status.due_at(None, None, at(1)), at(3600));
    let (asked, service) = ("1".to_owned(), "ab".to_owned());
    assert_eq!(status.due_at(Some(&asked), None, at(1)), at(10), "soon, whenever its last turn was");
    status.obeyed(Some(&asked), at(0));
    assert_eq!(status.due_at(Some(&asked), None, at(1)), at(3600), "that is done");
    assert_eq!(status.due_at(Some(&"2".to_owned()), None, at(1)), at(300), "not more often than every five minutes");
    status.observed_service = Some("cd".to_owned());
    assert_eq!(status.due_at(None, Some(&service), at(1)), at(10));
    status.plan_next(hour, Owned::Claimed, at(0));
    assert_eq!(status.next_run, Some(at(86_400)), "whose names they are is not known");
    plan(&mut status, &outlook(&[("www", Concern::Warning)]), 0);
    status.plan_next(hour, Owned::Proved, at(0));
    assert_eq!(status.next_run, Some(at(300)));
    status.plan_next(hour, Owned::Proved, at(2 * 86_400));
    assert_eq!(status.next_run, Some(at(2 * 86_400 + 3600)), "nobody is at it any more");
}
