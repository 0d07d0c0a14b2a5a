//! Lines of a reload about prices.

use super::*;

#[test]
fn prices_are_told_by_the_number_of_their_rows_and_in_no_order() {
    let with = |prices: &str| {
        let keys = format!(
            "quota = \"100 per minute\"\ncost = [{{ from = \"response-json:/n\", price = \"a\" }}]\n\
             reserve_default = 5\ncost_by = \"request-json:/model\"\nprices = {{ {prices} }}"
        );
        loaded(&BASE.replacen("quota = \"100 per minute\"", &keys, 1)).file
    };
    let old = with("x = { a = 1 }, y = { a = 2 }");
    for (prices, expected) in [
        ("y = { a = 2 }, x = { a = 1 }", &[][..]),
        ("x = { a = 1.0 }, y = { a = 2 }", &[]),
        (
            "x = { a = 1 }, y = { a = 2.5 }",
            &["policy per-client: prices changed"],
        ),
        (
            "x = { a = 1 }, y = { a = 2 }, \"*\" = \"dearest\"",
            &["policy per-client: prices 2 → 3"],
        ),
    ] {
        assert_eq!(changes(&old, &with(prices)), applied(expected), "{prices}");
    }
}
