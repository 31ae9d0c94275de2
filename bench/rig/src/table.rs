//! Rows of text as a table that is readable as it is and is Markdown as well.

/// Rows as a table. The first has the headings; so many columns stand left, and the others right.
pub fn table(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let cell = |(column, cell): (usize, &String)| match column < left {
            true => format!(" {cell:<width$} ", width = widths[column]),
            false => format!(" {cell:>width$} ", width = widths[column]),
        };
        lines.push(format!("|{}|\n", row.iter().enumerate().map(cell).collect::<Vec<_>>().join("|")));
        if index == 0 {
            let rule = |(column, width): (usize, &usize)| format!("{}{}", "-".repeat(width + 1), if column < left { "-" } else { ":" });
            lines.push(format!("|{}|\n", widths.iter().enumerate().map(rule).collect::<Vec<_>>().join("|")));
        }
    }
    lines.concat()
}

/// A row of cells.
pub fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows = [row(&["call", "µs"]), row(&["create", "112"])];
        assert_eq!(table(&rows, 1), "| call   |  µs |\n|--------|----:|\n| create | 112 |\n");
        let rows = [row(&["test", "ends", "µs"]), row(&["RTT", "free", "112"])];
        assert_eq!(table(&rows, 2), "| test | ends |  µs |\n|------|------|----:|\n| RTT  | free | 112 |\n");
    }
}
