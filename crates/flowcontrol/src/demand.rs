//! How many seats a level could use, over time: the average, spread and peak of a period, and a memory of earlier ones.

/// After this long, half of an earlier demand is forgotten.
const HALF_LIFE_SECONDS: f64 = 300.0;

/// What a level wanted lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DemandStats {
    pub average: f64,
    pub deviation: f64,
    pub peak: u32,
    /// Falls slowly after a burst, rises with it at once.
    pub smoothed: f64,
}

/// Adds up demand over time. Times are nanoseconds since any fixed moment.
#[derive(Debug)]
pub struct Demand {
    started_ns: u64,
    changed_ns: u64,
    now: u32,
    peak: u32,
    sum: f64,
    sum_of_squares: f64,
    stats: DemandStats,
}

impl Demand {
    pub fn new(now_ns: u64) -> Self {
        Self {
            started_ns: now_ns,
            changed_ns: now_ns,
            now: 0,
            peak: 0,
            sum: 0.0,
            sum_of_squares: 0.0,
            stats: DemandStats::default(),
        }
    }

    /// From now on so many seats are wanted.
    pub fn set(&mut self, now_ns: u64, seats: u32) {
        let lasted = now_ns.saturating_sub(self.changed_ns) as f64;
        let before = f64::from(self.now);
        self.sum += before * lasted;
        self.sum_of_squares += before * before * lasted;
        self.changed_ns = self.changed_ns.max(now_ns);
        self.now = seats;
        self.peak = self.peak.max(seats);
    }

    /// Ends a period and says what was wanted in it.
    pub fn end_period(&mut self, now_ns: u64) -> DemandStats {
        self.set(now_ns, self.now);
        let lasted = now_ns.saturating_sub(self.started_ns) as f64;
        self.stats.peak = self.peak;
        if lasted > 0.0 {
            self.stats.average = self.sum / lasted;
            let variance = self.sum_of_squares / lasted - self.stats.average * self.stats.average;
            self.stats.deviation = variance.max(0.0).sqrt();
            let envelope = self.stats.average + self.stats.deviation;
            let kept = 0.5_f64.powf(lasted / 1e9 / HALF_LIFE_SECONDS);
            self.stats.smoothed = envelope.max(kept * self.stats.smoothed + (1.0 - kept) * envelope);
        }
        self.started_ns = now_ns;
        self.peak = self.now;
        self.sum = 0.0;
        self.sum_of_squares = 0.0;
        self.stats
    }

    pub fn stats(&self) -> DemandStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn average_spread_and_peak_are_weighted_by_time() {
        let mut demand = Demand::new(0);
        demand.set(0, 10);
        demand.set(SECOND, 0);
        demand.set(SECOND + 1, 30);
        demand.set(SECOND + 2, 0);
        let stats = demand.end_period(2 * SECOND);
        assert!((stats.average - 5.0).abs() < 0.01, "{stats:?}");
        assert!((stats.deviation - 5.0).abs() < 0.01, "{stats:?}");
        assert_eq!(stats.peak, 30);
    }

    #[test]
    fn a_burst_is_remembered_and_forgotten_by_half_in_five_minutes() {
        let mut demand = Demand::new(0);
        demand.set(0, 100);
        assert!((demand.end_period(SECOND).smoothed - 100.0).abs() < 0.01);
        demand.set(SECOND, 0);
        for second in 2..=301 {
            demand.end_period(second * SECOND);
        }
        assert!((demand.stats().smoothed - 50.0).abs() < 0.5, "{:?}", demand.stats());
    }
}
