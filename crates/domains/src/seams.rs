//! The three things that are passed in: network, clock and roots. The engine opens no socket, reads no time and believes
//! no trust anchor that did not come through here, so that the same binary runs on the real internet and on a fake one.

mod clock;
mod net;
mod roots;

pub use clock::{Clock, FixedClock, SystemClock};
pub use net::{Family, Net, VantagePoint};
pub use roots::{Anchor, PublicResolver, ROOTS_ENV, RootServer, Roots, RootsError, Whoami};
