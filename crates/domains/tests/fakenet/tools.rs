//! The tools on the fake internet.

use std::sync::Arc;

use anyhow::Result;
use bailiwick_domains::seams::{Net, SystemClock};
use bailiwick_domains::toolbox::Toolbox;

use crate::bed::World;

impl World {
    /// All tools, with the machine's clock.
    pub fn toolbox(&self) -> Result<Toolbox> {
        Ok(Toolbox::new(&Net::default(), Arc::new(SystemClock), &self.roots)?)
    }
}
