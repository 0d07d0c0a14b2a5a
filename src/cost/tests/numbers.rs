//! Decimals, weights and sums are exact.

use super::super::{BadWeight, Cost, Decimal, MissingTerm, Sum, Term, Weight};
use super::decimal;

#[test]
fn numbers_compare_by_all_their_digits() {
    let long = |last: char| format!("0.{}{last}", "7".repeat(250));
    let rising = [
        "0".to_owned(),
        "1e-300".to_owned(),
        "1.1e-300".to_owned(),
        "0.0000001".to_owned(),
        long('6'),
        long('7'),
        long('8'),
        "1".to_owned(),
        "1.00000000000000000000000000000000001".to_owned(),
        "9".to_owned(),
        "10".to_owned(),
        "1500".to_owned(),
        "18446744073709551615".to_owned(),
        "18446744073709551616".to_owned(),
        "123456789012345678901234567890".to_owned(),
        "123456789012345678901234567891".to_owned(),
        "9e39".to_owned(),
        "1e40".to_owned(),
    ];
    let numbers: Vec<_> = rising.iter().map(|text| decimal(text)).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}

#[test]
fn spellings_of_a_number_are_equal() {
    for [one, other] in [
        ["1.5e3", "1500"],
        ["1500.000", "1500"],
        ["0.15E+4", "1500"],
        ["150000e-2", "1500"],
        ["-0", "0"],
        ["0e99", "0.000"],
        ["-0.0e5", "0"],
        ["1E400", "1e40"],
        ["1e999999999", "1e40"],
        ["1e99999999999999999999", "1e40"],
        ["1e-999999999", "1e-300"],
        ["0.1e41", "1e40"],
    ] {
        assert_eq!(decimal(one), decimal(other), "{one}");
    }
    let zeros = format!("1{}e-250", "0".repeat(250));
    assert_eq!(decimal(&zeros), decimal("1"));
    assert_eq!(Decimal::from(u64::MAX), decimal("18446744073709551615"));
    assert_eq!(Decimal::from(0), decimal("0"));
}

#[test]
fn what_json_calls_no_number_is_none() {
    for text in [
        "", "-", "+1", "01", "-01", "1.", ".5", "1.e2", "1e", "1e+", "1e1.5", "1 ", "0x1", "1_0",
        "--1", "1e5e5", "1.2.3", "Infinity", "NaN",
    ] {
        assert_eq!(Decimal::parse(text.as_bytes()), None, "{text}");
    }
    assert_eq!(Decimal::parse(b"-1").map(|number| number.0), Some(true));
}

#[test]
fn a_weight_has_nine_decimals_and_ten_digits_at_most() {
    for (text, expected) in [
        ("1", Ok(Weight::ONE)),
        ("1.000", Ok(Weight::ONE)),
        ("1e-10", Err(BadWeight::TooManyDecimals)),
        ("0.0000000001", Err(BadWeight::TooManyDecimals)),
        ("12.0000000005", Err(BadWeight::TooManyDecimals)),
        ("1000000000.1", Err(BadWeight::TooLarge)),
        ("-1e10", Err(BadWeight::TooLarge)),
        ("three", Err(BadWeight::NotANumber)),
    ] {
        assert_eq!(Weight::parse(text), expected, "{text}");
    }
}

#[test]
fn terms_are_added_exactly_and_rounded_up_once() {
    let third = format!("0.{}", "3".repeat(250));
    let two_thirds = format!("0.{}7", "6".repeat(249));
    let cancelled = format!("{}.5", "9".repeat(38));
    for (products, expected) in [
        (vec![], 0),
        (vec![("3", "100"), ("15", "7")], 405),
        (vec![("0.1", "1"), ("0.2", "1"), ("0.7", "1")], 1),
        (vec![("0.1", "3")], 1),
        (vec![("1", "0.4"), ("1", "0.4")], 1),
        (vec![("1", third.as_str()), ("1", &two_thirds)], 1),
        (vec![("1", &third), ("2", &third)], 1),
        (vec![("1", &third), ("1", &two_thirds), ("1", "1e-300")], 2),
        (vec![("1", "5"), ("-1", "1e-300")], 5),
        (vec![("1", "5"), ("-1", "1")], 4),
        (vec![("1", "5"), ("-0.9", "5")], 1),
        (vec![("1", "5"), ("-1", "5")], 0),
        (vec![("1", "5"), ("-1", "5"), ("1e-9", "1e-290")], 1),
        (vec![("1", "5"), ("-2", "5")], 0),
        (vec![("1", &cancelled), ("-1", &cancelled), ("1", "3")], 3),
        (vec![("1", "1e39"), ("-10", "1e38"), ("2", "4")], 8),
        (vec![("1", "18446744073709551615")], u64::MAX),
        (vec![("1", "18446744073709551614"), ("1", "0.1")], u64::MAX),
        (vec![("-1000000000", "1e40"), ("1", "7")], 0),
    ] {
        let term = |at, times| Term {
            sources: vec![at],
            times: Weight::parse(times).expect(times),
            ..Term::default()
        };
        let terms = products.iter().enumerate();
        let terms = terms.map(|(at, (times, _))| term(at, times)).collect();
        let numbers: Vec<_> = products.iter().map(|(_, number)| decimal(number)).collect();
        let sum = Sum { terms };
        let cost = sum.cost(
            |at| Some((0, &numbers[*at])),
            MissingTerm::Unreported,
            &(0..=u64::MAX),
            None,
        );
        let expected = Cost {
            units: expected,
            has_any: !products.is_empty(),
            is_whole: true,
            is_capped: false,
        };
        assert_eq!(cost, expected, "{products:?}");
    }
}

#[test]
fn a_cost_is_capped_to_its_bounds() {
    let sum = Sum {
        terms: vec![Term {
            sources: vec![0],
            ..Term::default()
        }],
    };
    for (number, units, is_capped) in [
        ("0", 5, false),
        ("5.5", 6, false),
        ("100", 100, false),
        ("100.001", 100, true),
        ("1e999999999", 100, true),
    ] {
        let number = decimal(number);
        let cost = sum.cost(
            |_| Some((0, &number)),
            MissingTerm::Unreported,
            &(5..=100),
            None,
        );
        let expected = Cost {
            units,
            has_any: true,
            is_whole: true,
            is_capped,
        };
        assert_eq!(cost, expected, "{number:?}");
    }
}

#[test]
fn a_term_without_a_number_counts_its_or_only_where_the_body_ended_well() {
    let term = |sources: &[usize], or: Option<u64>| Term {
        sources: sources.to_vec(),
        times: Weight::parse("2").expect("a weight"),
        or: or.map(Decimal::from),
        ..Term::default()
    };
    let numbers = [Some(decimal("10")), None, Some(decimal("30"))];
    for (terms, missing, units, is_whole) in [
        (vec![term(&[0], None)], MissingTerm::Unreported, 20, true),
        (vec![term(&[0, 2], None)], MissingTerm::Unreported, 60, true),
        (vec![term(&[1, 0], None)], MissingTerm::Unreported, 20, true),
        (vec![term(&[1], None)], MissingTerm::Or, 0, false),
        (vec![term(&[1], Some(7))], MissingTerm::Or, 14, true),
        (vec![term(&[1], Some(7))], MissingTerm::Unreported, 0, false),
        (vec![term(&[0], Some(7))], MissingTerm::Or, 20, true),
        (
            vec![term(&[0], None), term(&[1], None)],
            MissingTerm::Or,
            20,
            false,
        ),
        (
            vec![term(&[0], None), term(&[1], Some(1))],
            MissingTerm::Or,
            22,
            true,
        ),
    ] {
        let sum = Sum { terms };
        let cost = sum.cost(
            |at| Some((0, numbers[*at].as_ref()?)),
            missing,
            &(0..=1000),
            None,
        );
        let expected = Cost {
            units,
            has_any: units > 0,
            is_whole,
            is_capped: false,
        };
        assert_eq!(cost, expected, "{sum:?}");
    }
}
