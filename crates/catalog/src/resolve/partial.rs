//! Resolution of as many wants as possible: one that cannot be met does not hold up the others, as it does in OLM.

use super::refusal::Refusal;
use super::request::{Request, Resolution};
use super::search::resolve;

/// What can be done, and the wants that have to wait.
#[derive(Clone, Debug)]
pub struct Partial {
    pub resolution: Resolution,
    /// The name of each want that is left out, with the reason. An empty name: what is installed contradicts itself.
    pub refused: Vec<(String, Refusal)>,
}

/// Resolves, leaving out wants until the rest can be met. Of wants that contradict each other the later one is left out.
pub fn resolve_possible(request: &Request) -> Partial {
    let mut request = request.clone();
    let mut refused = Vec::new();
    loop {
        match resolve(&request) {
            Ok(resolution) => return Partial { resolution, refused },
            Err(refusal) => {
                let Some(last) = refusal.wants.last().cloned() else {
                    refused.push((String::new(), refusal));
                    return Partial { resolution: Resolution::default(), refused };
                };
                request = request.without(std::slice::from_ref(&last));
                refused.push((last, refusal));
            }
        }
    }
}
