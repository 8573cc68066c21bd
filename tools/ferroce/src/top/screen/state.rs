//! What the screen shows, and what each key does to it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::top::queue_pair::QueuePair;
use crate::top::report::{Key, Report};
use crate::top::tables::{Of, Row, Tab};

/// How many rates are kept of each queue pair: as many as a wide terminal has columns.
const KEPT: usize = 240;
/// Rows that a page key moves by.
const PAGE: isize = 15;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Go,
    Quit,
    /// Stop for a while, as a shell's user asks for.
    Suspend,
}

/// How one table is looked at.
#[derive(Clone, Debug, Default)]
struct Look {
    /// The column that it is sorted by; none: the report's order.
    sort: Option<usize>,
    reverse: bool,
    /// The row that the arrows are at: it stays the same one wherever it moves.
    selected: Option<Of>,
}

/// Rates of a queue pair, the newest last: bytes sent and received in a second.
pub(super) type History = VecDeque<(u64, u64)>;

/// All of it.
#[derive(Debug)]
pub(super) struct State {
    pub interval: Duration,
    pub report: Report,
    /// Why there is no newer one.
    pub trouble: Option<String>,
    pub tab: Tab,
    looks: [Look; Tab::ALL.len()],
    /// Rows without this text are not shown.
    pub filter: String,
    /// The filter is being typed.
    pub editing: bool,
    /// The queue pair whose details are shown.
    details: Option<Key>,
    /// Lines of the details that have been scrolled away.
    pub scrolled: u16,
    pub paused: bool,
    pub help: bool,
    history: HashMap<Key, History>,
}

impl State {
    /// Before the first sample, with the queue pairs in front.
    pub(super) fn new(interval: Duration) -> State {
        State {
            interval,
            report: Report::default(),
            trouble: None,
            tab: Tab::QueuePairs,
            looks: Default::default(),
            filter: String::new(),
            editing: false,
            details: None,
            scrolled: 0,
            paused: false,
            help: false,
            history: HashMap::new(),
        }
    }

    /// A newer report. What became of queue pairs that are gone is forgotten.
    pub(super) fn take(&mut self, report: Report) {
        let mut history = std::mem::take(&mut self.history);
        for qp in &report.queue_pairs {
            let mut past = history.remove(&qp.key()).unwrap_or_default();
            if let Some(rates) = qp.rates {
                past.push_back((rates.sent_bytes as u64, rates.rcvd_bytes as u64));
                if past.len() > KEPT {
                    past.pop_front();
                }
            }
            self.history.insert(qp.key(), past);
        }
        self.report = report;
        self.trouble = None;
    }

    /// There is no newer one.
    pub(super) fn fail(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// The rows that are shown, in the order that is asked for.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = self.tab.rows(&self.report);
        rows.retain(|row| row.has(&self.filter));
        let look = self.look();
        if let Some(column) = look.sort {
            rows.sort_by(|a, b| a.cells[column].order(&b.cells[column]));
        }
        if look.reverse {
            rows.reverse();
        }
        rows
    }

    /// The place of the selected row among those that are shown.
    pub(super) fn selected(&self, rows: &[Row]) -> Option<usize> {
        let wanted = self.look().selected.as_ref()?;
        rows.iter().position(|row| row.of == *wanted)
    }

    /// The column that is sorted by, and whether the largest comes first.
    pub(super) fn sorted_by(&self) -> Option<(usize, bool)> {
        let look = self.look();
        look.sort.map(|column| (column, look.reverse))
    }

    /// The queue pair whose details are to be shown, if it is still there.
    pub(super) fn detailed(&self) -> Option<Result<&QueuePair, Key>> {
        let key = self.details?;
        let mut all = self.report.queue_pairs.iter();
        Some(all.find(|qp| qp.key() == key).ok_or(key))
    }

    /// Its rates so far.
    pub(super) fn history(&self, qp: &QueuePair) -> Option<&History> {
        self.history.get(&qp.key())
    }

    fn look(&self) -> &Look {
        &self.looks[self.tab as usize]
    }

    fn look_mut(&mut self) -> &mut Look {
        &mut self.looks[self.tab as usize]
    }

    /// Does what a key stands for.
    pub(super) fn key(&mut self, key: KeyEvent) -> Turn {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Turn::Quit;
        }
        if control && key.code == KeyCode::Char('z') {
            return Turn::Suspend;
        }
        if self.editing {
            self.type_filter(key.code);
            return Turn::Go;
        }
        if self.help {
            self.help = false;
            return Turn::Go;
        }

        match key.code {
            KeyCode::Char('q') => return Turn::Quit,
            KeyCode::Char('h' | '?') => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            _ if self.details.is_some() => self.key_of_details(key.code),
            KeyCode::Char('/') => self.editing = true,
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char('r') => self.look_mut().reverse ^= true,
            KeyCode::Char(digit @ '1'..='5') => self.tab = Tab::ALL[digit as usize - '1' as usize],
            KeyCode::Tab | KeyCode::Right => self.turn_to(1),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(Tab::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::PageDown => self.select(PAGE),
            KeyCode::PageUp => self.select(-PAGE),
            KeyCode::Home => self.select(isize::MIN),
            KeyCode::End => self.select(isize::MAX),
            KeyCode::Enter => self.open(),
            KeyCode::Esc => self.filter.clear(),
            _ => {}
        }
        Turn::Go
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => {
                self.editing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    fn key_of_details(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter | KeyCode::Esc | KeyCode::Backspace => self.details = None,
            KeyCode::Down | KeyCode::Char('j') => self.scrolled = self.scrolled.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
            _ => {}
        }
    }

    /// By the next column, the largest number or the first word on top; after the last one as the
    /// report has it.
    fn sort_by_next(&mut self) {
        let columns = self.tab.columns();
        let look = self.look_mut();
        let next = look.sort.map_or(0, |column| column + 1);
        look.sort = (next < columns.len()).then_some(next);
        look.reverse = look.sort.is_some_and(|column| columns[column].right);
    }

    fn turn_to(&mut self, steps: usize) {
        self.tab = Tab::ALL[(self.tab as usize + steps) % Tab::ALL.len()];
    }

    fn select(&mut self, by: isize) {
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else {
            return;
        };
        let at = match self.selected(&rows) {
            // The first key takes the first row.
            None if by == 1 => 0,
            at => at.unwrap_or(0).saturating_add_signed(by).min(last),
        };
        self.look_mut().selected = Some(rows[at].of.clone());
    }

    /// Shows more of what is selected, or of the first row: a queue pair's details, a program's
    /// queue pairs.
    fn open(&mut self) {
        let rows = self.rows();
        let at = self.selected(&rows).unwrap_or(0);
        match rows.get(at).map(|row| &row.of) {
            Some(Of::QueuePair(key)) => {
                self.details = Some(*key);
                self.scrolled = 0;
            }
            Some(Of::Program(pid)) => {
                self.filter = pid.to_string();
                self.tab = Tab::QueuePairs;
            }
            _ => {}
        }
    }
}
