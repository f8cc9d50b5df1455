//! A bounded memory of what was found out about tokens, by the token's hash: neither memory nor timing gives one away.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use ring::digest::{Context, SHA256};

/// What stands for a token.
pub(crate) type TokenHash = [u8; 32];

/// The hash of a token.
pub(crate) fn hash_of(token: &str) -> TokenHash {
    hash_of_parts(&[token])
}

/// The hash of several texts; their lengths are part of it, so that none runs over into the next.
pub(crate) fn hash_of_parts<S: AsRef<str>>(parts: &[S]) -> TokenHash {
    let mut context = Context::new(&SHA256);
    for part in parts {
        let part = part.as_ref();
        context.update(&part.len().to_be_bytes());
        context.update(part.as_bytes());
    }
    let mut out = TokenHash::default();
    out.copy_from_slice(context.finish().as_ref());
    out
}

/// Holds up to twice `generation_size` entries: when the young generation is full it becomes the old one, and what was
/// not used since goes.
pub(crate) struct TokenMemory<T> {
    generation_size: usize,
    generations: RwLock<Generations<T>>,
}

struct Generations<T> {
    young: HashMap<TokenHash, Arc<T>>,
    old: HashMap<TokenHash, Arc<T>>,
}

impl<T> TokenMemory<T> {
    pub(crate) fn new(generation_size: usize) -> Self {
        let generations = RwLock::new(Generations { young: HashMap::new(), old: HashMap::new() });
        Self { generation_size, generations }
    }

    /// What is remembered. What is found among the old becomes young again.
    pub(crate) fn get(&self, hash: &TokenHash) -> Option<Arc<T>> {
        let found = {
            let memory = self.generations.read().ok()?;
            match memory.young.get(hash) {
                Some(found) => return Some(found.clone()),
                None => memory.old.get(hash)?.clone(),
            }
        };
        self.put(*hash, found.clone());
        Some(found)
    }

    pub(crate) fn put(&self, hash: TokenHash, value: Arc<T>) {
        if let Ok(mut memory) = self.generations.write() {
            if memory.young.len() >= self.generation_size && !memory.young.contains_key(&hash) {
                memory.old = std::mem::take(&mut memory.young);
            }
            memory.young.insert(hash, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let memory = TokenMemory::new(2);
        memory.put(hash_of("kept"), Arc::new(0));
        for number in 1..20 {
            memory.put(hash_of(&number.to_string()), Arc::new(number));
            assert_eq!(memory.get(&hash_of("kept")).as_deref(), Some(&0), "used all the time");
        }
        assert!(memory.get(&hash_of("1")).is_none(), "long unused");
    }

    #[test]
    fn lengths_are_part_of_a_hash() {
        assert_ne!(hash_of_parts(&["xy", "z"]), hash_of_parts(&["x", "yz"]));
    }
}
