//! Waiting inside a computation. Merging fields and evaluating expressions are computations that now and then need an answer
//! from elsewhere, a conversion webhook's or a remote authorizer's; this is the one way they wait for it.

use tokio::runtime::{Handle, RuntimeFlavor};

/// What is said where nobody could do the work that is waited for: the only thread would wait for itself.
const NEEDS_THREADS: &str = "a webhook has to be asked in the middle of a computation, which takes a multi-threaded runtime, and \
                             this server runs on one thread (tokio's current_thread)";

/// Waits for `work`, while other threads of the runtime go on with everything else; an error on a runtime without others.
pub(crate) fn wait_for<T>(work: impl Future<Output = T>) -> Result<T, &'static str> {
    let runtime = Handle::current();
    match runtime.runtime_flavor() {
        RuntimeFlavor::CurrentThread => Err(NEEDS_THREADS),
        _ => Ok(tokio::task::block_in_place(|| runtime.block_on(work))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn others_go_on_while_a_computation_waits() {
        let (tell, told) = tokio::sync::oneshot::channel();
        tokio::spawn(async move { tell.send(7) });
        assert_eq!(wait_for(told), Ok(Ok(7)));
    }

    #[tokio::test]
    async fn on_one_thread_it_is_an_error_and_no_panic() {
        assert_eq!(wait_for(async { 7 }), Err(NEEDS_THREADS));
    }
}
