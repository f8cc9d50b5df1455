//! How fast a tenant may have checks run: so many a minute, the last minute's unused ones in reserve.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::index::Tenant;

/// Tenants that are remembered before those with a full reserve are forgotten.
const TENANTS_MAX: usize = 10_000;
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// The rates of all tenants.
pub(crate) struct Rates {
    per_minute: u32,
    /// When the reserve of a tenant is full again: each check moves it on by one interval.
    full_at: HashMap<Tenant, Timestamp>,
}

impl Rates {
    pub fn new(per_minute: u32) -> Self {
        Self { per_minute: per_minute.max(1), full_at: HashMap::new() }
    }

    /// Takes one; otherwise how long to wait for the next.
    pub fn take(&mut self, tenant: &Tenant, now: Timestamp) -> Result<(), Duration> {
        let interval = SignedDuration::from_millis(60_000 / i64::from(self.per_minute));
        if self.full_at.len() > TENANTS_MAX {
            self.full_at.retain(|_, full_at| *full_at > now);
        }
        let full_at = self.full_at.get(tenant).copied().unwrap_or(now).max(now);
        let used_up = full_at.duration_since(now) + interval - MINUTE;
        if used_up > SignedDuration::ZERO {
            return Err(Duration::try_from(used_up).unwrap_or_default());
        }
        self.full_at.insert(tenant.clone(), full_at.checked_add(interval).unwrap_or(full_at));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    #[test]
    fn a_minutes_worth_is_given_at_once_and_then_one_at_a_time() {
        let mut rates = Rates::new(6);
        let tenant = Tenant::Namespace("shop".into());
        for _ in 0..6 {
            assert_eq!(rates.take(&tenant, at(0)), Ok(()));
        }
        assert_eq!(rates.take(&tenant, at(0)), Err(Duration::from_secs(10)));
        assert_eq!(rates.take(&tenant, at(9)), Err(Duration::from_secs(1)));
        assert_eq!(rates.take(&tenant, at(10)), Ok(()));
        assert!(rates.take(&tenant, at(10)).is_err());
    }

    #[test]
    fn one_tenant_does_not_use_up_anothers() {
        let mut rates = Rates::new(1);
        assert_eq!(rates.take(&Tenant::Namespace("a".into()), at(0)), Ok(()));
        assert!(rates.take(&Tenant::Namespace("a".into()), at(0)).is_err());
        assert_eq!(rates.take(&Tenant::Namespace("b".into()), at(0)), Ok(()));
        assert_eq!(rates.take(&Tenant::Project("a".into()), at(0)), Ok(()));
    }
}
