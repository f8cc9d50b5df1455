//! The division of seats among classes: in proportion to what each wants, within each one's bounds.

/// What a class wants and may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    pub lower: f64,
    pub upper: f64,
    /// What it would like; at least `lower`.
    pub target: f64,
}

/// Classes that want nothing count as wanting this, so that proportions exist.
const TARGET_MIN: f64 = 0.001;
/// Halvings of the search interval: enough for any double.
const STEPS: usize = 200;

/// Gives each class `fraction × target` moved into its bounds, with the one fraction for all that makes the parts sum up
/// to `sum`, and that fraction. If the bounds leave no such fraction, everybody gets the bound nearest to it.
pub fn divide(sum: f64, classes: &[Class]) -> (Vec<f64>, f64) {
    let parts = |fraction: f64| -> Vec<f64> {
        classes
            .iter()
            .map(|class| (fraction * class.target.max(TARGET_MIN)).clamp(class.lower, class.upper.max(class.lower)))
            .collect()
    };
    let total = |fraction: f64| parts(fraction).iter().sum::<f64>();
    let mut high = 1.0;
    for _ in 0..STEPS {
        if total(high) >= sum || high > 1e12 {
            break;
        }
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if total(middle) < sum { low = middle } else { high = middle }
    }
    (parts(high), high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class(lower: f64, target: f64, upper: f64) -> Class {
        Class { lower, upper, target }
    }

    fn rounded(sum: f64, classes: &[Class]) -> Vec<f64> {
        divide(sum, classes).0.into_iter().map(f64::round).collect()
    }

    #[test]
    fn without_bounds_in_the_way_parts_are_proportional() {
        assert_eq!(rounded(90.0, &[class(0.0, 10.0, 100.0), class(0.0, 20.0, 100.0)]), [30.0, 60.0]);
    }

    #[test]
    fn an_upper_bound_leaves_the_rest_to_others_and_a_lower_one_takes_it() {
        assert_eq!(rounded(90.0, &[class(0.0, 10.0, 100.0), class(0.0, 80.0, 40.0)]), [50.0, 40.0]);
        assert_eq!(rounded(90.0, &[class(50.0, 50.0, 100.0), class(0.0, 100.0, 100.0)]), [50.0, 40.0]);
    }

    proptest! {
        #[test]
        fn parts_stay_within_bounds_and_sum_up_when_they_can(
            wants in prop::collection::vec((0.0..50.0_f64, 0.0..50.0_f64, 0.0..50.0_f64), 1..8), fill in 0.0..1.0_f64,
        ) {
            let classes: Vec<Class> = wants.iter().map(|(a, b, c)| class(*a, a + b, a + c)).collect();
            let (lower, upper): (f64, f64) = (classes.iter().map(|c| c.lower).sum(), classes.iter().map(|c| c.upper).sum());
            let sum = lower + fill * (upper - lower);
            let (parts, _) = divide(sum, &classes);
            for (part, class) in parts.iter().zip(&classes) {
                prop_assert!(*part >= class.lower && *part <= class.upper);
            }
            prop_assert!((parts.iter().sum::<f64>() - sum).abs() < 0.01);
        }
    }
}
