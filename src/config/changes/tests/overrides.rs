//! Lines of a reload about overrides.

use super::*;

#[test]
fn a_file_of_overrides_is_told_by_its_rows_and_kept_by_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("overrides.csv");
    let text = BASE.replacen(
        "quota = \"100 per minute\"",
        &format!(
            "quota = \"100 per minute\"\noverrides_file = '{}'",
            path.display()
        ),
        1,
    );
    let with = |rows: &str| {
        std::fs::write(&path, rows).expect("a file");
        loaded(&text).file
    };
    let one = with("10.0.0.1,1 per s\n");
    for (rows, expected) in [
        ("10.0.0.1,1 per s\n", &[][..]),
        (
            "10.0.0.1,1 per s\n10.0.0.2,blocked\n",
            &["policy per-client: overrides_file 1 → 2 rows"],
        ),
        (
            "10.0.0.1,2 per s\n",
            &["policy per-client: overrides_file changed, 1 row"],
        ),
    ] {
        let new = with(rows);
        assert_eq!(changes(&one, &new), applied(expected));
        let kept = new.policies.raw[0]
            .value
            .overrides_file
            .as_ref()
            .expect("it is named");
        assert_eq!(
            (kept.content.as_str(), kept.rows),
            ("", rows.lines().count())
        );
    }
}

#[test]
fn a_quota_that_becomes_blocked_is_told_with_its_overrides() {
    assert_eq!(
        edit(&[(
            "quota = \"100 per minute\"",
            "quota = \"blocked\"\noverrides = { \"*\" = \"unlimited\" }",
        )]),
        applied(&[
            "policy per-client: 100 per minute → blocked",
            "policy per-client: overrides 0 → 1",
        ])
    );
}
