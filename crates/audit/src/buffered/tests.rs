use std::sync::mpsc;

use super::*;

/// Tells of every batch it gets, and takes each only when it is allowed to.
struct Told {
    batches: mpsc::Sender<Vec<Vec<u8>>>,
    go: mpsc::Receiver<()>,
}

impl AuditSink for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn accept(&mut self, events: &Batch) -> Result<(), SinkError> {
        let _ = self.go.recv();
        let _ = self.batches.send(events.iter().map(<[u8]>::to_vec).collect());
        Ok(())
    }
}

fn events(names: &[&str]) -> Batch {
    names.iter().collect()
}

fn buffered(buffering: Buffering) -> (Buffered, mpsc::Receiver<Vec<Vec<u8>>>, mpsc::Sender<()>) {
    let (batches, told) = mpsc::channel();
    let (allow, go) = mpsc::channel();
    let sink = Buffered::new(Box::new(Told { batches, go }), buffering).expect("a thread");
    (sink, told, allow)
}

#[test]
fn events_come_in_order_and_no_more_at_once_than_allowed() {
    let (mut sink, told, allow) = buffered(Buffering { batch_len_max: 2, ..Buffering::default() });
    sink.accept(&events(&["a", "b", "c"])).expect("room");
    drop(allow);
    sink.close();
    let batches: Vec<Vec<Vec<u8>>> = told.iter().collect();
    assert!(batches.iter().all(|batch| batch.len() <= 2));
    assert_eq!(batches.concat(), [b"a", b"b", b"c"]);
}

#[test]
fn what_does_not_fit_is_lost_and_said_to_be() {
    let (mut sink, told, allow) = buffered(Buffering { buffer_len: 2, ..Buffering::default() });
    let lost = sink.accept(&events(&["a", "b", "c"])).expect_err("no room for all");
    assert!(matches!(lost, SinkError::Full(1)), "{lost}");
    drop(allow);
    sink.close();
    assert_eq!(told.iter().flatten().collect::<Vec<_>>(), [b"a", b"b"]);
}

#[test]
fn a_batch_waits_to_be_full_but_not_for_the_end() {
    let hour = Duration::from_secs(3600);
    let (mut sink, told, allow) =
        buffered(Buffering { batch_len_max: 3, batch_wait_max: hour, ..Buffering::default() });
    sink.accept(&events(&["a"])).expect("room");
    sink.accept(&events(&["b", "c", "d"])).expect("room");
    allow.send(()).expect("running");
    assert_eq!(told.recv().expect("a full batch"), [b"a", b"b", b"c"]);
    drop(allow);
    sink.close();
    assert_eq!(told.recv().expect("the rest"), [b"d"]);
}

#[test]
fn a_closed_sink_does_not_wait_for_permissions() {
    let throttle = Some((0.001, 1));
    let (mut sink, told, allow) = buffered(Buffering { throttle, ..Buffering::default() });
    sink.accept(&events(&["a", "b", "c"])).expect("room");
    allow.send(()).expect("running");
    assert_eq!(told.recv().expect("the burst"), [b"a"]);
    drop(allow);
    sink.close();
    assert_eq!(told.iter().flatten().collect::<Vec<_>>(), [b"b", b"c"]);
}
