//! The report as tables: which columns there are, what a cell shows and what it is sorted by. The
//! screen and `--batch` show the same ones.

mod rows;

use std::cmp::Ordering;

use super::names;
use super::report::{Key, Rates, Report};

/// What the tables are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Programs,
    QueuePairs,
    CompletionQueues,
    Regions,
    Ports,
}

impl Tab {
    /// All, in their order.
    pub(super) const ALL: [Tab; 5] = [
        Tab::Programs,
        Tab::QueuePairs,
        Tab::CompletionQueues,
        Tab::Regions,
        Tab::Ports,
    ];

    /// Its heading.
    pub(super) fn title(self) -> &'static str {
        match self {
            Tab::Programs => "Programs",
            Tab::QueuePairs => "QPs",
            Tab::CompletionQueues => "CQs",
            Tab::Regions => "MRs",
            Tab::Ports => "Ports",
        }
    }

    /// Its columns.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Tab::Programs => rows::PROGRAMS,
            Tab::QueuePairs => rows::QUEUE_PAIRS,
            Tab::CompletionQueues => rows::COMPLETION_QUEUES,
            Tab::Regions => rows::REGIONS,
            Tab::Ports => rows::PORTS,
        }
    }

    /// Its rows, in the report's order.
    pub(super) fn rows(self, report: &Report) -> Vec<Row> {
        match self {
            Tab::Programs => report.programs.iter().map(rows::program).collect(),
            Tab::QueuePairs => report.queue_pairs.iter().map(rows::queue_pair).collect(),
            Tab::CompletionQueues => {
                let queues = report.completion_queues.iter();
                queues.map(rows::completion_queue).collect()
            }
            Tab::Regions => report.memory_regions.iter().map(rows::region).collect(),
            Tab::Ports => report.ports.iter().map(rows::port).collect(),
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub title: &'static str,
    /// Numbers, which end below each other.
    pub right: bool,
    /// Where there is not room for all, those of the highest go first.
    pub rank: u8,
}

const fn text(title: &'static str, rank: u8) -> Column {
    Column {
        title,
        right: false,
        rank,
    }
}

const fn number(title: &'static str, rank: u8) -> Column {
    Column {
        title,
        right: true,
        rank,
    }
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Program(u32),
    QueuePair(Key),
    /// Anything else, by its place in the report's words.
    Other(String),
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub of: Of,
    pub cells: Vec<Cell>,
    /// There is a hint.
    pub marked: bool,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub text: String,
    /// Numbers are sorted as such, whatever is shown of them.
    by: Option<f64>,
}

impl Cell {
    fn text(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            by: None,
        }
    }

    fn number(number: impl Into<f64>) -> Cell {
        let number = number.into();
        Cell {
            text: format!("{number:.0}"),
            by: Some(number),
        }
    }

    /// Short, with a unit of thousands.
    fn amount(number: f64) -> Cell {
        Cell {
            text: names::short(number),
            by: Some(number),
        }
    }

    /// One of the rates, which the first sample has not.
    fn rate(rates: Option<&Rates>, of: impl Fn(&Rates) -> f64) -> Cell {
        match rates.map(of) {
            Some(rate) => Cell::amount(rate),
            None => Cell {
                text: "-".to_owned(),
                by: Some(-1.0),
            },
        }
    }

    fn hexadecimal(number: u32) -> Cell {
        Cell {
            text: format!("0x{number:06x}"),
            by: Some(number.into()),
        }
    }

    /// Which of two comes first: numbers by size, text by its letters.
    pub(super) fn order(&self, other: &Cell) -> Ordering {
        match (self.by, other.by) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (None, None) => self.text.cmp(&other.text),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
        }
    }
}

impl Row {
    /// Whether a cell has this text, whatever its case.
    pub(super) fn has(&self, text: &str) -> bool {
        let wanted = text.to_lowercase();
        let mut cells = self.cells.iter();
        cells.any(|cell| cell.text.to_lowercase().contains(&wanted))
    }
}
