//! Shuffle sharding: a flow's hash deals it a hand of queues, so that two flows rarely share all of theirs.

/// The largest hand: as many cards as 60 bits of hash can deal from two queues would be more, but validation allows no
/// more than this.
pub const HAND_SIZE_MAX: usize = 15;

/// Deals `hand_size` distinct cards below `deck_size`; every hand is about equally likely over all hashes.
pub fn deal(mut hash: u64, deck_size: u32, hand_size: u32) -> impl Iterator<Item = u32> {
    let hand_size = (hand_size as usize).clamp(1, HAND_SIZE_MAX).min(deck_size.max(1) as usize);
    let mut hand = [0_u32; HAND_SIZE_MAX];
    for dealt in 0..hand_size {
        // Cards left in the deck: take one of them by its place, then count past the cards already taken.
        let left = u64::from(deck_size.max(1)) - dealt as u64;
        let mut card = (hash % left) as u32;
        hash /= left;
        let mut at = 0;
        while at < dealt && hand[at] <= card {
            card += 1;
            at += 1;
        }
        hand.copy_within(at..dealt, at + 1);
        hand[at] = card;
    }
    hand.into_iter().take(hand_size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hand_has_distinct_cards_of_the_deck(hash: u64, deck in 1_u32..600, hand in 1_u32..15) {
            let mut cards: Vec<u32> = deal(hash, deck, hand).collect();
            prop_assert_eq!(cards.len(), hand.min(deck) as usize);
            cards.dedup();
            prop_assert_eq!(cards.len(), hand.min(deck) as usize);
            prop_assert!(cards.iter().all(|card| *card < deck));
        }
    }

    #[test]
    fn all_hands_are_dealt_equally_often() {
        let mut dealt = std::collections::BTreeMap::new();
        for hash in 0..60 {
            *dealt.entry(deal(hash, 5, 3).collect::<Vec<_>>()).or_insert(0) += 1;
        }
        assert_eq!(dealt.len(), 10, "five cards make ten hands of three");
        assert!(dealt.values().all(|times| *times == 6), "{dealt:?}");
    }
}
