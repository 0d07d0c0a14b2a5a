//! Sparklines: a counter's last ten minutes, drawn into the available columns.

use super::series::POINTS_MAX;

/// Draws the highest value of each column's steps; returns the lines from the top. Before the first value it is blank.
///
/// `steps` is the number of values since the start: with it, a column keeps its steps until it leaves, so that the
/// picture only moves.
pub(super) fn bars(values: &[u64], steps: usize, width: usize, height: usize) -> Vec<String> {
    let per_column = POINTS_MAX.div_ceil(width.max(1));
    let unfinished = values.len().min(steps % per_column);
    let (finished, newest) = values.split_at(values.len() - unfinished);
    let highest = |values: &[u64]| values.iter().copied().max();
    // The columns, from the newest to the oldest.
    let columns = highest(newest).into_iter();
    let columns = columns.chain(finished.rchunks(per_column).filter_map(highest));
    let columns: Vec<u64> = columns.take(width).collect();
    let scale = highest(&columns).unwrap_or(0).max(1);
    let eighths = height * 8;
    let levels = columns.iter().map(|value| {
        let level = (u128::from(*value) * eighths as u128).div_ceil(u128::from(scale));
        usize::try_from(level).unwrap_or(eighths)
    });
    let levels: Vec<usize> = levels.collect();
    let blank = width - columns.len();
    let line = |row: usize| {
        let glyphs = levels.iter().rev();
        let glyphs = glyphs.map(|level| GLYPHS[level.saturating_sub(row * 8).min(8)]);
        std::iter::repeat_n(' ', blank).chain(glyphs).collect()
    };
    (0..height).rev().map(line).collect()
}

const GLYPHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_highest_value_of_their_steps_and_only_move() {
        assert_eq!(bars(&[0, 1, 4, 8], 4, 300, 1)[0].trim_start(), "▁▄█");
        let two_lines = bars(&[8, 1, 16], 3, 300, 2);
        let two_lines: Vec<_> = two_lines.iter().map(|line| line.trim_start()).collect();
        assert_eq!(two_lines, ["█", "█▁█"]);
        // Four steps to a column of 75.
        let mut values: Vec<u64> = vec![1, 1, 9, 1, 1, 3, 1, 1];
        assert_eq!(bars(&values, 8, 75, 1)[0].trim_start(), "█▃");
        values.extend([2, 9]);
        assert_eq!(bars(&values, 10, 75, 1)[0].trim_start(), "█▃█");
        assert_eq!(bars(&values, 10, 75, 1)[0].chars().count(), 75);
        assert_eq!(bars(&[], 0, 10, 1), [" ".repeat(10)]);
        assert_eq!(bars(&[1], 1, 0, 1), [String::new()]);
    }
}
