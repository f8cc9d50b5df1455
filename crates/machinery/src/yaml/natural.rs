//! The order of keys in written YAML: letters by code, runs of digits by value, other characters before letters.

use std::cmp::Ordering;

/// Compares two keys.
pub fn compare(a: &str, b: &str) -> Ordering {
    let differs = a.bytes().zip(b.bytes()).position(|(x, y)| x != y);
    let Some(mut at) = differs else { return a.len().cmp(&b.len()) };
    while !a.is_char_boundary(at) || !b.is_char_boundary(at) {
        at -= 1;
    }
    let (head, rest_a, rest_b) =
        (a.get(..at).unwrap_or_default(), a.get(at..).unwrap_or_default(), b.get(at..).unwrap_or_default());
    let (Some(first_a), Some(first_b)) = (rest_a.chars().next(), rest_b.chars().next()) else {
        return a.len().cmp(&b.len());
    };
    match (first_a.is_alphabetic(), first_b.is_alphabetic()) {
        (true, true) => return first_a.cmp(&first_b),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero inside a longer number counts as a digit of it, a leading one does not.
    let inside_number = (first_a == '0' || first_b == '0')
        && head.bytes().rev().take_while(u8::is_ascii_digit).any(|digit| digit != b'0');
    let (digits_a, number_a) = leading_number(rest_a, inside_number);
    let (digits_b, number_b) = leading_number(rest_b, inside_number);
    number_a.cmp(&number_b).then(digits_a.cmp(&digits_b)).then(first_a.cmp(&first_b))
}

/// How many digits a text begins with, and their value.
fn leading_number(text: &str, inside_number: bool) -> (usize, i64) {
    let mut digits = 0;
    let mut number = i64::from(inside_number);
    for digit in text.bytes().take_while(u8::is_ascii_digit) {
        digits += 1;
        number = number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
    }
    (digits, number)
}
