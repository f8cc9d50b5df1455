use super::*;

fn options(directory: &Path) -> StreamOptions {
    StreamOptions { directory: directory.to_owned(), segment_bytes: 200, bytes_max: 1 << 20 }
}

fn event(number: u64) -> String {
    format!("{{\"n\":{number}}}")
}

fn events(numbers: impl IntoIterator<Item = u64>) -> Batch {
    numbers.into_iter().map(event).collect()
}

fn numbers(items: &[Item]) -> Vec<u64> {
    for item in items {
        assert_eq!(item.json, event(item.sequence), "numbers and events stay together");
    }
    items.iter().map(|item| item.sequence).collect()
}

#[tokio::test]
async fn a_subscriber_gets_every_event_in_order_across_segments() {
    let directory = tempfile::tempdir().expect("directory");
    let (mut sink, stream) = open(options(directory.path())).expect("opened");
    let mut subscription = stream.subscribe("store").expect("subscribed");
    for number in 1..=50 {
        sink.accept(&events([number])).expect("written");
    }
    let mut seen = Vec::new();
    while seen.len() < 50 {
        seen.extend(numbers(&subscription.next(7).await.expect("read")));
    }
    assert_eq!(seen, (1..=50).collect::<Vec<_>>());
    assert!(Segments::list(directory.path()).expect("listed").sizes().count() > 1, "there were several segments");
}

#[tokio::test]
async fn after_a_restart_a_subscriber_goes_on_where_it_acknowledged() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let (mut sink, stream) = open(options(directory.path())).expect("opened");
        let mut subscription = stream.subscribe("store").expect("subscribed");
        sink.accept(&events(1..=10)).expect("written");
        assert_eq!(subscription.next(5).await.expect("read").len(), 5);
        subscription.acknowledge(3).expect("acknowledged");
    }
    let (mut sink, stream) = open(options(directory.path())).expect("opened again");
    sink.accept(&events([11])).expect("written");
    let mut subscription = stream.subscribe("store").expect("subscribed");
    let mut seen = Vec::new();
    while seen.len() < 8 {
        seen.extend(numbers(&subscription.next(100).await.expect("read")));
    }
    assert_eq!(seen, (4..=11).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_a_crash_left_half_written_is_cut_off() {
    let directory = tempfile::tempdir().expect("directory");
    let path = {
        let (mut sink, _stream) = open(options(directory.path())).expect("opened");
        sink.accept(&events([1, 2])).expect("written");
        Segments::list(directory.path()).expect("listed").holding(1).expect("a segment").path.clone()
    };
    let whole = std::fs::read(&path).expect("read");
    for cut in 1..whole.len() {
        std::fs::write(&path, &whole[..cut]).expect("cut");
        let (mut sink, stream) = open(options(directory.path())).expect("opened");
        let next = *stream.last.borrow() + 1;
        sink.accept(&events([next])).expect("written");
        let mut subscription = stream.subscribe(&format!("reader-{cut}")).expect("subscribed");
        assert_eq!(numbers(&subscription.read(100).expect("read")), (1..=next).collect::<Vec<_>>(), "cut at {cut}");
    }
}

#[tokio::test]
async fn acknowledged_segments_are_removed_and_others_are_not() {
    let directory = tempfile::tempdir().expect("directory");
    let (mut sink, stream) = open(options(directory.path())).expect("opened");
    let (mut fast, mut slow) =
        (stream.subscribe("fast").expect("subscribed"), stream.subscribe("slow").expect("subscribed"));
    let write = |sink: &mut StreamSink, range: std::ops::RangeInclusive<u64>| {
        range.for_each(|number| sink.accept(&events([number])).expect("written"));
    };
    write(&mut sink, 1..=40);
    fast.acknowledge(40).expect("acknowledged");
    write(&mut sink, 41..=60);
    assert_eq!(Segments::list(directory.path()).expect("listed").oldest(), Some(1), "the slow one needs them");
    slow.acknowledge(40).expect("acknowledged");
    write(&mut sink, 61..=80);
    let oldest = Segments::list(directory.path()).expect("listed").oldest().expect("segments");
    assert!(oldest > 1 && oldest <= 41, "{oldest}");
    assert_eq!(numbers(&stream.subscribe("slow").expect("again").read(1).expect("read")), [41]);
}

#[tokio::test]
async fn who_is_away_too_long_is_told_what_is_lost() {
    let directory = tempfile::tempdir().expect("directory");
    let small = StreamOptions { bytes_max: 500, ..options(directory.path()) };
    let (mut sink, stream) = open(small).expect("opened");
    let mut subscription = stream.subscribe("store").expect("subscribed");
    (1..=200).for_each(|number| sink.accept(&events([number])).expect("written"));
    let Err(StreamError::Lost { missed: 1, resume }) = subscription.read(10) else { panic!("told") };
    subscription.resume(resume);
    assert_eq!(numbers(&subscription.read(2).expect("read")), [resume, resume + 1]);
}

#[tokio::test]
async fn a_waiting_subscriber_is_woken() {
    let directory = tempfile::tempdir().expect("directory");
    let (mut sink, stream) = open(options(directory.path())).expect("opened");
    let mut subscription = stream.subscribe("store").expect("subscribed");
    let waiting = tokio::spawn(async move { subscription.next(1).await.expect("read") });
    tokio::task::yield_now().await;
    sink.accept(&events([1])).expect("written");
    assert_eq!(numbers(&waiting.await.expect("joined")), [1]);
    assert!(matches!(stream.subscribe("../x"), Err(StreamError::Name(_))));
}
