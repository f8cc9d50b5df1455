//! Projects that are gone. The stream tells nothing of what goes with a project, so that what is known of it is forgotten when
//! its API says that it is no more. Another project may have its name by then: nothing is forgotten of a project that
//! something was told of while it was asked.

use kube::core::response::StatusDetails;

use super::ProjectControllers;
use crate::error::{Error, status};
use crate::plane::Plane;
use crate::work_queue::Outcome;

/// Questions to a project that wait for their answer.
#[derive(Default)]
pub(super) struct Asked {
    waiting: usize,
    /// Whether something was told of it since the first of them.
    told: bool,
}

impl ProjectControllers {
    /// Asks the API of a project. For one that is gone, or about to go, there is nothing left to do.
    pub(super) async fn ask(
        &self,
        plane: &Plane,
        question: impl Future<Output = Result<Outcome, Error>>,
    ) -> Result<Outcome, Error> {
        self.state().asked.entry(plane.clone()).or_default().waiting += 1;
        let result = question.await;
        let gone = result.as_ref().is_err_and(is_project_gone);
        let is_same = self.answered(plane, gone);
        match gone {
            // Another one of the name, perhaps: what it needs is found out by asking again.
            true if !is_same => Ok(Outcome::Backoff),
            true => Ok(Outcome::Done),
            false => result,
        }
    }

    /// Something was told of a project.
    pub(super) fn told(&self, plane: &Plane) {
        if let Some(asked) = self.state().asked.get_mut(plane) {
            asked.told = true;
        }
    }

    /// Forgets a project that is gone, unless it may be another one already; says whether it is the one that was asked.
    fn answered(&self, plane: &Plane, gone: bool) -> bool {
        let mut state = self.state();
        // Everything is told anew if it is not there.
        let Some(asked) = state.asked.get_mut(plane) else { return false };
        asked.waiting -= 1;
        let (waiting, is_same) = (asked.waiting, !asked.told);
        if waiting == 0 {
            state.asked.remove(plane);
        }
        if gone && is_same {
            state.terminating.retain(|(of, _)| of != plane);
            state.quotas.retain(|(of, _), _| of != plane);
            state.emptying.remove(plane);
            // With the state locked, so that nothing can be told meanwhile.
            self.collectors().remove(plane);
        }
        is_same
    }
}

fn is_project_gone(error: &Error) -> bool {
    match error {
        Error::Request(error) => {
            let Some(status) = status(error) else { return false };
            let about = status.details.as_ref().filter(|details| details.kind == "projects");
            let terminating =
                |details: &StatusDetails| details.causes.iter().any(|cause| cause.reason == "ProjectTerminating");
            about.is_some_and(|details| status.is_not_found() || terminating(details))
        }
        // Discovery tells the answer as text.
        Error::Discovery { detail, .. } => detail.contains("\"kind\":\"projects\""),
        Error::Changed(_) | Error::Incomplete(_) => false,
    }
}
