//! What the command prints: tables for people, JSON and YAML for machines.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{Attribute, Color, presets};
use serde_json::Value;

use crate::exit::{Exit, Failure};

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For people with a wide terminal: full ids and more columns.
    Wide,
    /// JSON, as the service answers; `watch` prints one line an event.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Standard output, in the format that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// The format.
    pub(crate) format: Format,
    colour: bool,
}

impl Output {
    /// Standard output in a format; coloured only on a terminal whose owner does not mind.
    pub(crate) fn new(format: Format) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self { format, colour: io::stdout().is_terminal() && !unwanted && !dumb }
    }

    /// Whether output is for people.
    pub(crate) fn is_for_people(&self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }

    /// Whether people want all there is.
    pub(crate) fn is_wide(&self) -> bool {
        self.format == Format::Wide
    }

    /// Prints a text as it is. One write, so that a line is never cut in two by the end of the process.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(write_failure)
    }

    /// Prints a line.
    pub(crate) fn line(&self, line: &str) -> Result<(), Failure> {
        self.text(&format!("{line}\n"))
    }

    /// Prints a table.
    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        self.text(&table.render(self.colour))
    }

    /// Prints a value for machines; for people too, as YAML, which reads best.
    pub(crate) fn value(&self, value: &Value) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.line(&format!("{value:#}")),
            _ => self.text(&yaml(value)?),
        }
    }

    /// Prints an element of an endless list: a line of JSON, or a document of a YAML stream.
    pub(crate) fn element(&self, value: &Value) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.line(&value.to_string()),
            _ => self.text(&format!("---\n{}", yaml(value)?)),
        }
    }
}

fn yaml(value: &Value) -> Result<String, Failure> {
    serde_norway::to_string(value).map_err(|error| Failure::new(Exit::Failed, format!("cannot print YAML: {error}")))
}

fn write_failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::closed_pipe(),
        _ => Failure::new(Exit::Failed, format!("cannot write to standard output: {error}")),
    }
}

/// Says something on standard error. If even that is closed, nobody listens.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// How a cell feels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Like any other.
    #[default]
    Plain,
    /// All is well.
    Good,
    /// Look here.
    Bad,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with a tone.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }

    fn styled(&self) -> comfy_table::Cell {
        if self.text.is_empty() {
            return comfy_table::Cell::new("-").fg(Color::DarkGrey);
        }
        let cell = comfy_table::Cell::new(&self.text);
        match self.tone {
            Tone::Plain => cell,
            Tone::Good => cell.fg(Color::Green),
            Tone::Bad => cell.fg(Color::Red),
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

/// A table: aligned columns, two blanks between them, no lines. An empty cell shows as `-`, so that columns can be
/// counted by programs that cut lines at blanks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(header: Vec<&'static str>) -> Self {
        Self { header, rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The table as text.
    pub(crate) fn render(&self, colour: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).force_no_tty();
        if colour {
            table.enforce_styling();
        }
        table.set_header(self.header.iter().map(|name| comfy_table::Cell::new(name).add_attribute(Attribute::Bold)));
        table.add_rows(self.rows.iter().map(|row| row.iter().map(Cell::styled).collect::<Vec<_>>()));
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec!["ID", "NAME", "STATE"]);
        table.row(vec!["3d5a2f0e".into(), "vxlan0".into(), Cell::toned("Attached", Tone::Good)]);
        table.row(vec!["77e1c2d4".into(), "".into(), Cell::toned("Degraded", Tone::Bad)]);
        table
    }

    #[test]
    fn tables_are_plain_text() {
        let expected = "\
ID        NAME    STATE
3d5a2f0e  vxlan0  Attached
77e1c2d4  -       Degraded
";
        assert_eq!(table().render(false), expected);
    }

    #[test]
    fn colour_is_only_there_when_asked_for() {
        assert!(table().render(true).contains("\u{1b}["));
        assert!(!table().render(false).contains('\u{1b}'));
    }
}
