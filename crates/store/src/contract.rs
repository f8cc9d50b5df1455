//! The one test suite every engine passes: what [`Store`](crate::Store) promises, one named case per promise.
//!
//! An engine's test file says how to make an empty store and calls [`contract_suite!`](crate::contract_suite); each case
//! then shows up there as a test of its own. Cases use only the trait, wait for events rather than for time, and panic when
//! a promise is broken.

pub mod compaction;
pub mod concurrency;
pub mod model;
pub mod ranges;
pub mod steps;
pub mod transactions;
pub mod ttl;
pub mod watches;

use std::any::Any;
use std::sync::Arc;

use crate::Store;

/// An empty store, and whatever must live as long as it: a directory, a server process.
pub struct Fixture {
    store: Arc<dyn Store>,
    _keep: Box<dyn Any + Send>,
}

impl Fixture {
    pub fn new(store: Arc<dyn Store>, keep: impl Any + Send) -> Self {
        Self { store, _keep: Box::new(keep) }
    }

    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }
}

/// Expands to one `#[tokio::test]` per case of the contract. The argument is the path of an `async fn() -> Fixture` that makes
/// a new empty store each time.
#[macro_export]
macro_rules! contract_suite {
    ($fixture:path) => {
        $crate::contract_suite! { @cases $fixture;
            transactions::empty_store_is_at_revision_one,
            transactions::put_is_read_back_with_its_revisions,
            transactions::absent_key_reads_as_none_at_the_current_revision,
            transactions::each_change_takes_the_next_revision,
            transactions::overwriting_keeps_the_create_revision,
            transactions::recreating_starts_a_new_life,
            transactions::writing_the_same_value_is_a_change,
            transactions::create_conflicts_with_what_exists,
            transactions::update_of_a_stale_revision_conflicts_with_what_is_current,
            transactions::update_of_an_absent_key_conflicts_with_nothing,
            transactions::delete_honours_its_expectation,
            transactions::deleting_nothing_changes_nothing,
            transactions::operations_of_a_transaction_share_one_revision,
            transactions::one_broken_expectation_undoes_the_whole_transaction,
            transactions::conflict_names_the_first_offending_key,
            transactions::naming_a_key_twice_is_invalid,
            transactions::empty_transaction_commits_at_the_current_revision,
            transactions::keys_and_values_are_any_bytes,
            transactions::big_values_survive,
            ranges::entries_come_in_key_order_within_bounds,
            ranges::prefix_of_high_bytes_is_bounded,
            ranges::range_without_end_reaches_the_last_key,
            ranges::limit_cuts_and_count_does_not,
            ranges::limit_zero_only_counts,
            ranges::empty_range_is_empty,
            ranges::past_revisions_can_be_read,
            ranges::paging_at_a_revision_ignores_later_writes,
            ranges::future_revision_is_an_error,
            ranges::many_keys_are_all_listed,
            ranges::many_megabytes_are_all_listed,
            watches::changes_arrive_in_order_with_their_past,
            watches::deletes_carry_the_last_state,
            watches::start_revision_is_exclusive,
            watches::watch_resumes_after_every_revision,
            watches::changes_of_one_revision_come_in_one_batch,
            watches::replayed_changes_of_one_revision_come_in_one_batch,
            watches::watch_sees_its_range_and_nothing_else,
            watches::watch_of_a_future_revision_waits_for_it,
            watches::unchanged_keys_and_conflicts_make_no_events,
            watches::replay_of_many_megabytes_is_complete,
            watches::requested_progress_reaches_the_current_revision,
            watches::progress_reaches_watches_that_see_no_events,
            watches::progress_is_answered_each_time,
            watches::dropping_a_watch_leaves_the_others,
            concurrency::increments_are_never_lost,
            concurrency::creation_has_one_winner,
            concurrency::committed_revisions_are_distinct_and_grow,
            concurrency::writes_are_read_at_once,
            concurrency::transfers_conserve_the_total,
            concurrency::watchers_see_every_change_exactly_once,
            concurrency::progress_never_overtakes_events,
            concurrency::slow_watcher_does_not_stop_the_others,
            compaction::fresh_store_is_not_compacted,
            compaction::current_values_outlive_compaction,
            compaction::compacted_revisions_cannot_be_read,
            compaction::compaction_revision_itself_can_be_read,
            compaction::watch_from_before_compaction_fails_and_ends,
            compaction::watch_from_the_compaction_revision_works,
            compaction::up_to_date_watch_does_not_notice_compaction,
            compaction::compaction_takes_no_revision,
            compaction::compacting_twice_or_backwards_is_harmless,
            compaction::compacting_the_future_is_an_error,
            ttl::key_deletes_itself_no_earlier_than_asked,
            ttl::rewriting_without_ttl_keeps_the_key,
            ttl::rewriting_with_ttl_renews_it,
            ttl::failed_rewrite_does_not_renew,
            model::random_histories_match_a_simple_model,
        }
    };
    (@cases $fixture:path; $($group:ident :: $case:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let fixture = $fixture().await;
                $crate::contract::$group::$case(fixture.store()).await;
            }
        )*
    };
}
