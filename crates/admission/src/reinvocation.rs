//! The second run of the first round: a webhook or policy that changes the object makes those before it look again, once.

use std::any::Any;

/// How far the first round of one request has come, and what plugins remember between its two runs.
#[derive(Debug, Default)]
pub struct Reinvocation {
    run: Run,
    requested: bool,
    remembered: Vec<(&'static str, Box<dyn Any + Send + Sync>)>,
}

/// Which run of the first round this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Run {
    #[default]
    First,
    /// All plugins run again; those outside the server only if they asked to.
    Again,
}

impl Reinvocation {
    pub fn run(&self) -> Run {
        self.run
    }

    /// Asks for a second run.
    pub fn request(&mut self) {
        self.requested = true;
    }

    /// Begins the second run if somebody asked for it.
    pub(crate) fn begin_again(&mut self) -> bool {
        let begins = self.requested && self.run == Run::First;
        if begins {
            self.run = Run::Again;
        }
        begins
    }

    /// What a plugin remembers for its second run.
    pub fn remembered<T: Any + Send + Sync + Default>(&mut self, plugin: &'static str) -> &mut T {
        let known = |(name, value): &(&str, Box<dyn Any + Send + Sync>)| *name == plugin && value.is::<T>();
        let at = match self.remembered.iter().position(known) {
            Some(at) => at,
            None => {
                self.remembered.push((plugin, Box::<T>::default()));
                self.remembered.len() - 1
            }
        };
        self.remembered[at].1.downcast_mut().expect("invariant: found by type, or just made")
    }
}
