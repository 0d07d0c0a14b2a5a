//! What other proxies and libraries call the words of the file.

/// Returns the word of `known` for which `text` is the name in another product.
pub(super) fn synonym<'w>(text: &str, known: &[&'w str]) -> Option<&'w str> {
    let text = text.trim().to_lowercase().replace(['_', ' '], "-");
    let meant = |word: &&str| {
        let mut lines = include_str!("synonyms.txt")
            .lines()
            .filter_map(|line| line.split_once(": "));
        lines.any(|(meant, others)| meant == *word && others.split(' ').any(|other| other == text))
    };
    known.iter().copied().find(meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_the_word_that_the_list_has() {
        let modes = ["enforce", "shadow", "mark", "off"];
        let algorithms = [
            "sliding-window",
            "fixed-window",
            "sliding-log",
            "gcra",
            "leaky-bucket",
        ];
        for (text, known, meant) in [
            ("token_bucket", &algorithms[..], Some("gcra")),
            ("Leaky", &algorithms, Some("leaky-bucket")),
            ("log", &algorithms, Some("sliding-log")),
            ("log", &modes, Some("shadow")),
            ("dry run", &modes, Some("shadow")),
            ("on", &modes, Some("enforce")),
            ("deny", &["share", "skip", "refuse"], Some("refuse")),
            ("allow", &["share", "skip", "refuse"], Some("skip")),
            ("deny", &["local", "open", "closed"], Some("closed")),
            ("shadow", &modes, None),
            ("what", &modes, None),
        ] {
            assert_eq!(synonym(text, known), meant, "{text}");
        }
    }
}
