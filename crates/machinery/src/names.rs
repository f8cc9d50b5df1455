//! Names for objects that only have a `generateName`.

use rand::Rng;

/// No vowels, and no characters that look alike: no accidental words, and legible names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many random characters follow the base.
const RANDOM_LENGTH: usize = 5;
/// Longer bases are cut, so that the name stays a DNS label.
pub const MAX_BASE_LENGTH: usize = 63 - RANDOM_LENGTH;
/// How often a create tries another name when the one it made is taken.
pub const MAX_ATTEMPTS: usize = 8;

/// A name that starts with `base` and ends in random characters.
pub fn generate_name(base: &str, random: &mut impl Rng) -> String {
    let end = (0..=MAX_BASE_LENGTH.min(base.len())).rev().find(|&i| base.is_char_boundary(i)).unwrap_or(0);
    let mut name = String::with_capacity(end + RANDOM_LENGTH);
    name.push_str(base.get(..end).unwrap_or_default());
    for _ in 0..RANDOM_LENGTH {
        let index = random.random_range(0..ALPHABET.len());
        name.push(ALPHABET.get(index).copied().unwrap_or(b'b').into());
    }
    name
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn names_are_the_base_and_five_characters() {
        let mut random = StdRng::seed_from_u64(7);
        for base in ["", "a-", &"x".repeat(70), &"é".repeat(40)] {
            let name = generate_name(base, &mut random);
            assert!(name.len() <= 63, "{name}");
            let (head, tail) = name.split_at(name.len() - 5);
            assert!(base.starts_with(head) && (head == base || head.len() >= 57), "{name}");
            assert!(tail.bytes().all(|b| ALPHABET.contains(&b)), "{name}");
        }
        assert_ne!(generate_name("a", &mut random), generate_name("a", &mut random));
    }
}
