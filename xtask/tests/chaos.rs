//! A short storm as `cargo test` sees it. `cargo xtask chaos` makes longer ones.

use xtask::{chaos, tools};

#[test]
fn three_servers_on_three_etcd_members_keep_their_promises_in_a_storm() -> anyhow::Result<()> {
    if let Err(error) = tools::require("etcd") {
        bailiwick_skip::skip(format_args!("{error:#}"));
        return Ok(());
    }
    // History so short that servers and informers find it gone now and then.
    let history = "3s".to_owned();
    chaos::run(&chaos::Args { minutes: 0.6, seed: Some(1), bailiwick: None, history, keep: None })
}
