//! Tests of reports.

use super::*;

const TEXT: &str = "a = 1\nß = \"é\" # x\n";

#[test]
fn columns_count_characters_in_both_forms() {
    let mut report = Report::default();
    report
        .mistake(&(16..17), "no comment", "")
        .hint("leave it out");
    assert_eq!(
        report.lines("f.toml", TEXT),
        ["f.toml:2:9: no comment (leave it out)"]
    );
    assert_eq!(
        report.render("f.toml", TEXT, false),
        "error: no comment\n --> f.toml:2:9\n  |\n2 | ß = \"é\" # x\n  |         ^\n  |\n  = help: leave it out\n\nf.toml: 1 mistake\n"
    );
}

#[test]
fn a_mistake_stays_on_its_line_whatever_the_file_has_in_a_string() {
    let mut report = Report::default();
    let hostile = "`a\nerror: b\u{1b}[2J` is not a duration";
    report
        .mistake(&(0..1), hostile, "")
        .hint("did you mean `a\n`?");
    assert_eq!(
        report.lines("f.toml", TEXT),
        ["f.toml:1:1: `a␊error: b␛[2J` is not a duration (did you mean `a␊`?)"]
    );
    let rendered = report.render("f.toml", TEXT, false);
    assert!(
        rendered.starts_with("error: `a␊error: b␛[2J` is"),
        "{rendered}"
    );
}

#[test]
fn controls_beyond_ascii_reach_no_terminal() {
    let text = "a = \"\u{9b}31m\u{85}\" # ß\n";
    let mut report = Report::default();
    report.mistake(&(4..14), "`\u{9b}31m\u{2028}` is no number", "");
    assert_eq!(
        report.lines("f.toml", text),
        ["f.toml:1:5: `\u{fffd}31m\u{fffd}` is no number"]
    );
    let rendered = report.render("f.toml", text, false);
    assert!(rendered.contains("1 | a = \"·31m·\" # ß\n"), "{rendered}");
    assert!(
        !rendered.contains(['\u{85}', '\u{9b}', '\u{2028}']),
        "{rendered}"
    );
}

fn mistake(span: Range<usize>, message: &str, expected: &str) -> Mistake {
    Mistake {
        file: None,
        span,
        message: message.to_owned(),
        expected: expected.to_owned(),
        hint: None,
        first: None,
    }
}

#[test]
fn mistakes_are_sorted_by_place_and_said_once() {
    let mut report = Report::default();
    for (place, message) in [(4..5, "late"), (0..1, "early"), (4..5, "late")] {
        report.mistake(&place, message, "");
    }
    let (early, late) = (mistake(0..1, "early", ""), mistake(4..5, "late", ""));
    assert_eq!(report.mistakes(), [&early, &late]);
}

#[test]
fn what_follows_from_a_mistake_is_left_out() {
    let mut report = Report::default();
    report.mistake(&(2..6), "cause", "");
    let mut later = Report::default();
    later.mistake(&(4..9), "effect", "");
    later.mistake(&(6..9), "another", "");
    report.absorb(later);
    let (cause, another) = (mistake(2..6, "cause", ""), mistake(6..9, "another", ""));
    assert_eq!(report.mistakes(), [&cause, &another]);
}

#[test]
fn what_a_variable_stands_for_is_not_repeated() {
    let mut report = Report::default();
    report.redact(2..6);
    let mut later = Report::default();
    later
        .mistake(&(2..6), "no upstream `hunter2`", "an upstream")
        .hint("did you mean `hunter`?");
    report.absorb(later);
    let message = "the value of this variable is not valid here";
    assert_eq!(report.mistakes(), [&mistake(2..6, message, "an upstream")]);
}

#[test]
fn a_mistake_in_another_file_is_shown_with_its_line_and_where_the_first_one_is() {
    let file = OtherFile::new("a.csv", "x,1\nx,2\n");
    let (mut report, mut of_file) = (Report::default(), Report::default());
    let first = Place {
        file: None,
        span: 6..7,
    };
    of_file
        .mistake(&(4..5), "`x` is there twice", "")
        .first(first);
    of_file.mistake(&(8..9), "another", "");
    assert_eq!(report.absorb_of(&file, &of_file, 1), 1);
    assert_eq!(
        report.lines("f.toml", TEXT),
        ["a.csv:2:1: `x` is there twice; the first one is at f.toml:2:1"]
    );
    assert_eq!(
        report.render("f.toml", TEXT, false),
        "error: `x` is there twice\n --> a.csv:2:1\n  |\n2 | x,2\n  | ^\n  |\n  = note: the first one is at f.toml:2:1\n\nf.toml: 1 mistake\n"
    );
}

#[test]
fn places_of_other_files_are_not_those_of_the_configuration() {
    let file = OtherFile::new("a.csv", "x,1\n");
    let (mut report, mut later, mut of_file) =
        (Report::default(), Report::default(), Report::default());
    report.mistake(&(0..5), "cause", "");
    of_file.mistake(&(0..1), "elsewhere", "");
    later.absorb_of(&file, &of_file, 1);
    report.absorb(later);
    assert_eq!(report.mistakes().len(), 2);
}
