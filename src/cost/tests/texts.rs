//! Texts at pointers, and the prices that they choose.

use super::*;
use crate::cost::{
    Amount, BodyCost, Factors, FoundText, NumberIndex, Numbers, Others, PriceRow, PriceTable,
    Priced, Sum, Term, Weight,
};

/// Returns the text at `/model`, and whether the body was whole.
fn text(body: &str) -> (FoundText, bool) {
    let pointers = [(
        JsonPointer::parse("/model").expect("a pointer"),
        PointerUse::Text,
    )];
    let pointers = Arc::new(Pointers::new(&pointers).expect("few pointers"));
    let numbers = read_all(&pointers, BodyFormat::Json, body);
    (numbers.text(0).clone(), numbers.is_whole)
}

#[test]
fn a_text_is_read_decoded_and_only_if_it_is_the_only_one() {
    let told = |text: &str| FoundText::Told(text.into());
    let longest = "m".repeat(256);
    let escaped = r"\u006d".repeat(256);
    for (body, found) in [
        (r#"{"model":"gpt-5"}"#, told("gpt-5")),
        (
            r#" { "messages" : [{"model":"x"}] , "model" : "gpt-5" } "#,
            told("gpt-5"),
        ),
        (r#"{"\u006dodel":"g\u0070t-5"}"#, told("gpt-5")),
        (
            r#"{"model":"a\\b\"c\/d\ud83d\ude00"}"#,
            told("a\\b\"c/d\u{1f600}"),
        ),
        (r#"{"model":""}"#, told("")),
        (r#"{"model":"a","model":"a"}"#, told("a")),
        (r#"{"model":"a","model":"\u0061"}"#, told("a")),
        (r#"[{"model":"a"},{"model":"a"}]"#, told("a")),
        (&format!(r#"{{"model":"{longest}"}}"#), told(&longest)),
        (&format!(r#"{{"model":"{escaped}"}}"#), told(&longest)),
        (r#"{"messages":[]}"#, FoundText::Nothing),
        (r#"{"Model":"a"}"#, FoundText::Nothing),
        (r#"{"x":{"model":"a"}}"#, FoundText::Nothing),
        (r#"{"model":"a","model":"b"}"#, FoundText::Unclear),
        (
            r#"{"model":"a","model":"b","model":"a"}"#,
            FoundText::Unclear,
        ),
        (r#"{"model":"a","model":null}"#, FoundText::Unclear),
        (r#"{"model":["a"],"model":"a"}"#, FoundText::Unclear),
        (r#"[{"model":"a"},{"model":"b"}]"#, FoundText::Unclear),
        (r#"{"model":5}"#, FoundText::Unclear),
        (r#"{"model":null}"#, FoundText::Unclear),
        (r#"{"model":true}"#, FoundText::Unclear),
        (r#"{"model":["a"]}"#, FoundText::Unclear),
        (r#"{"model":{"name":"a"}}"#, FoundText::Unclear),
        (r#"{"model":"\ud83d"}"#, FoundText::Unclear),
        (r#"{"model":"\x"}"#, FoundText::Unclear),
        ("{\"model\":\"a\nb\"}", FoundText::Unclear),
        (&format!(r#"{{"model":"{longest}m"}}"#), FoundText::Unclear),
        (&format!(r#"{{"model":"{escaped}m"}}"#), FoundText::Unclear),
        (
            &format!(r#"{{"model":"{}"}}"#, "m".repeat(5000)),
            FoundText::Unclear,
        ),
    ] {
        assert_eq!(text(body), (found, true), "{body}");
    }
    for body in [r#"{"model":"a"#, r#"{"model":"a"} x"#, r#"{"model":"a"}}"#] {
        assert!(!text(body).1, "{body}");
    }
}

/// Makes a cost that is the number at `/n` times one price.
fn priced(rows: &[(&str, &str)], has_dearest: bool) -> BodyCost<NumberIndex> {
    let weights = |price: &str| -> Box<[Weight]> { [weight(price)].into() };
    let rows = rows.iter().map(|(pattern, price)| {
        let factors = Factors {
            cost: weights(price),
            reserve: weights(price),
            unknown: weights(price),
        };
        ((*pattern).to_owned(), factors)
    });
    let sum = Sum {
        terms: vec![Term {
            sources: vec![NumberIndex::RequestJson(0)],
            ..Term::default()
        }],
    };
    BodyCost {
        cost: sum.clone(),
        bounds: 0..=1_000_000,
        reserve: Amount::Reported(sum),
        reserve_default: 7,
        max_reserve_body: 1000,
        unknown: None,
        refund_on: Vec::new(),
        prices: Some(Priced {
            by: vec![NumberIndex::RequestJson(1)],
            table: PriceTable::new(rows, has_dearest, Vec::new()).into(),
        }),
    }
}

fn weight(text: &str) -> Weight {
    Weight::parse(text).expect(text)
}

fn numbers(body: &str) -> Numbers {
    let pointers = [
        ("/n", PointerUse::Number(Take::Largest)),
        ("/model", PointerUse::Text),
    ];
    let pointers =
        pointers.map(|(pointer, wanted)| (JsonPointer::parse(pointer).expect(pointer), wanted));
    let pointers = Arc::new(Pointers::new(&pointers).expect("few pointers"));
    Numbers {
        request: read_all(&pointers, BodyFormat::Json, body),
        request_bytes: Some(Decimal::from(body.len() as u64)),
        is_length_known: true,
        is_request_whole: true,
        ..Numbers::default()
    }
}

#[test]
fn the_value_itself_comes_first_then_the_longest_prefix() {
    let rows = [
        ("gpt*", "2"),
        ("gpt-5*", "3"),
        ("gpt-5-mini", "5"),
        ("gpt-5-mini*", "7"),
        ("gpt-5-nano*", "11"),
        ("gpt-4*", "13"),
        ("é*", "17"),
    ];
    let cost = priced(&rows, true);
    for (model, units) in [
        ("gpt", 20),
        ("gpt-3", 20),
        ("gpt-5", 30),
        ("gpt-5-m", 30),
        ("gpt-5-mini", 50),
        ("gpt-5-mini-2026", 70),
        ("gpt-5-nano", 110),
        ("gpt-5-z", 30),
        ("gpt-4.1", 130),
        ("è", 170),
        ("é", 170),
        ("GPT", 170),
        ("gp", 170),
        ("", 170),
        ("zzz", 170),
    ] {
        let body = format!(r#"{{"n":10,"model":"{model}"}}"#);
        let numbers = numbers(&body);
        let row = cost.price_row(&numbers).expect("all have one");
        assert_eq!(cost.reserve(&numbers, row), units, "{model}");
        assert_eq!(
            cost.settle(&numbers, 0, row, Ok(())).units,
            units,
            "{model}"
        );
        assert_eq!(cost.reserve_at_least(&numbers), 20, "{model}");
    }
}

#[test]
fn an_unknown_text_has_the_prices_of_the_others_or_none() {
    let rows = [("a", "2"), ("b", "5")];
    let refused = priced(&rows, false);
    let dearest = priced(&rows, true);
    let other = priced(&[("a", "2"), ("b", "5"), ("*", "3")], false);
    for (body, known) in [
        (r#"{"n":10,"model":"a"}"#, true),
        (r#"{"n":10,"model":"c"}"#, false),
        (r#"{"n":10}"#, false),
        (r#"{"n":10,"model":"a","model":"b"}"#, false),
        (r#"{"n":10,"model":7}"#, false),
        (r#"{"n":10,"model":"a""#, false),
    ] {
        let numbers = numbers(body);
        let row = known.then_some(PriceRow::Row(0));
        assert_eq!(refused.price_row(&numbers), row, "{body}");
        let row = row.unwrap_or(PriceRow::Dearest);
        assert_eq!(dearest.price_row(&numbers), Some(row), "{body}");
        let row = Some(PriceRow::Row(if known { 0 } else { 2 }));
        assert_eq!(other.price_row(&numbers), row, "{body}");
    }
    let table = |cost: &BodyCost<_>| cost.prices.as_ref().map(|prices| prices.table.others());
    assert_eq!(table(&refused), Some(Others::Refused));
    assert_eq!(table(&dearest), Some(Others::Dearest));
}

#[test]
fn what_could_not_be_read_to_its_end_is_unknown() {
    let cost = priced(&[("a", "2"), ("b", "5")], true);
    let body = r#"{"n":10,"model":"a"}"#;
    let cut = Numbers {
        is_request_whole: false,
        ..numbers(body)
    };
    let long = Numbers {
        request_bytes: Some(Decimal::from(1001)),
        ..numbers(body)
    };
    for unread in [cut, long] {
        let row = cost.price_row(&unread);
        assert_eq!(row, Some(PriceRow::Dearest));
        assert_eq!(cost.reserve(&unread, PriceRow::Dearest), 50);
    }
}
