//! How the state looks.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as Shown, Table, TableState, Tabs};

use super::details;
use super::state::State;
use crate::top::names::{short, span};
use crate::top::tables::{Row, Tab};

/// The widest that a column of text gets while others have too little.
const WIDEST: usize = 40;

const KEYS: &str = "q quit  Tab next  s sort  r reverse  / filter  Enter details  p pause  h help";

const HELP: &str = "\
q, Ctrl-C       end; Ctrl-Z: stop, until the shell's `fg`
Tab, Left, Right, 1 to 5
                another table
Up, Down, PgUp, PgDn, Home, End
                another row
Enter           a queue pair's details; a program's queue pairs
Esc, Enter      back from the details
s               sort by the next column; after the last not at all
r               the other way round
/ text Enter    only rows that have the text; Esc: all again
p               stop the samples, and go on
h               this

RETX   packets sent again       RNR    RNR NAKs received and sent
SENDS  send requests posted and not completed, RECVS the same of receives
TX/S, RX/S  bytes a second, headers included
Hints are explained in docs/top.md.";

/// Styles, with colours or without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub head: Style,
    pub selected: Style,
    pub marked: Style,
    pub sent: Style,
    pub received: Style,
}

impl Theme {
    /// Without colours where NO_COLOR is set, and not to nothing (no-color.org).
    pub(super) fn of_environment() -> Theme {
        let without = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Theme::new(!without)
    }

    pub(super) fn new(colours: bool) -> Theme {
        let plain = Style::new();
        let coloured = |colour: Color| if colours { plain.fg(colour) } else { plain };
        Theme {
            head: plain.add_modifier(Modifier::BOLD),
            selected: plain.add_modifier(Modifier::REVERSED),
            marked: coloured(Color::Red).add_modifier(Modifier::BOLD),
            sent: coloured(Color::Green),
            received: coloured(Color::Cyan),
        }
    }
}

/// All of it.
pub(super) fn screen(frame: &mut Frame<'_>, state: &State, theme: &Theme) {
    let rows = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ];
    let [title, tabs, body, foot] = Layout::vertical(rows).areas(frame.area());

    frame.render_widget(Line::styled(heading(state), theme.head), title);
    let titles = Tab::ALL.iter().enumerate();
    let titles = titles.map(|(i, tab)| format!("{} {}", i + 1, tab.title()));
    let chosen = Tabs::new(titles)
        .select(state.tab as usize)
        .highlight_style(theme.selected);
    frame.render_widget(chosen, tabs);

    match state.detailed() {
        Some(Ok(qp)) => details::draw(frame, body, state, qp, theme),
        Some(Err((_, _, number))) => {
            let gone = format!("QP 0x{number:06x} is no more: Esc goes back");
            frame.render_widget(Line::raw(gone), body);
        }
        None => table(frame, body, state, theme),
    }

    frame.render_widget(footer(state, theme), foot);
    if state.help {
        help(frame, body);
    }
}

fn heading(state: &State) -> String {
    let report = &state.report;
    let sum = |of: fn(&crate::top::report::Rates) -> f64| {
        let rates = report.queue_pairs.iter().filter_map(|qp| qp.rates.as_ref());
        // Of nothing the sum of floats is -0.
        short(rates.map(of).fold(0.0, std::ops::Add::add))
    };

    let (programs, qps) = (report.programs.len(), report.queue_pairs.len());
    let marked = report.queue_pairs.iter().filter(|qp| !qp.hints.is_empty());
    let mut text = format!(
        "{}  {programs} programs  {qps} QPs  TX {}/s  RX {}/s  every {}",
        report.device,
        sum(|rates| rates.sent_bytes),
        sum(|rates| rates.rcvd_bytes),
        span(state.interval),
    );

    match marked.count() {
        0 => {}
        marked => text += &format!("  {marked} QPs with hints"),
    }
    if state.paused {
        text += "  paused";
    }
    text
}

fn footer<'a>(state: &'a State, theme: &Theme) -> Line<'a> {
    if state.editing {
        return Line::from(vec![
            Span::raw("/"),
            Span::raw(state.filter.as_str()),
            Span::styled(" ", theme.selected),
        ]);
    }
    if let Some(why) = &state.trouble {
        return Line::styled(why.as_str(), theme.marked);
    }
    match state.filter.is_empty() {
        true => Line::raw(KEYS),
        false => Line::raw(format!("filter: {}  (Esc: all rows)", state.filter)),
    }
}

fn help(frame: &mut Frame<'_>, body: Rect) {
    let text = Text::raw(HELP);
    let (width, height) = (text.width() as u16 + 2, text.height() as u16 + 2);
    let area = Rect {
        x: body.x + body.width.saturating_sub(width) / 2,
        y: body.y,
        width: width.min(body.width),
        height: height.min(body.height),
    };
    frame.render_widget(Clear, area);
    let boxed = Paragraph::new(text).block(Block::bordered().title("Keys"));
    frame.render_widget(boxed, area);
}

fn table(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) {
    let rows = state.rows();
    if rows.is_empty() {
        let text = match state.filter.is_empty() {
            true => "None.",
            false => "None with this text.",
        };
        frame.render_widget(Line::raw(text), area);
        return;
    }

    let titles = titles(state);
    let widths = widths(&titles, &rows);
    let shown = fitting(state.tab, &widths, area.width.into());
    let columns = state.tab.columns();

    let cell = |text: String, column: usize| {
        let alignment = match columns[column].right {
            true => Alignment::Right,
            false => Alignment::Left,
        };
        Cell::from(Text::from(text).alignment(alignment))
    };

    let head = shown.iter().map(|&i| cell(titles[i].clone(), i));
    let body = rows.iter().map(|row| {
        let cells = shown.iter().map(|&i| cell(row.cells[i].text.clone(), i));
        let style = if row.marked {
            theme.marked
        } else {
            Style::new()
        };
        Shown::new(cells.collect::<Vec<_>>()).style(style)
    });

    let last = shown.last().copied();
    let constraints = shown.iter().map(|&i| match Some(i) == last {
        // The hints have what is left.
        true => Constraint::Min(widths[i] as u16),
        false => Constraint::Length(widths[i] as u16),
    });

    let table = Table::new(body.collect::<Vec<_>>(), constraints.collect::<Vec<_>>())
        .header(Shown::new(head.collect::<Vec<_>>()).style(theme.head))
        .row_highlight_style(theme.selected);
    let mut at = TableState::default().with_selected(state.selected(&rows));
    frame.render_stateful_widget(table, area, &mut at);
}

/// The columns' titles, that which is sorted by with a sign of which way.
fn titles(state: &State) -> Vec<String> {
    let columns = state.tab.columns().iter().enumerate();
    let sign = |i| match state.sorted_by() {
        Some((column, true)) if column == i => "v",
        Some((column, false)) if column == i => "^",
        _ => "",
    };
    columns
        .map(|(i, column)| format!("{}{}", column.title, sign(i)))
        .collect()
}

fn widths(titles: &[String], rows: &[Row]) -> Vec<usize> {
    let widest = |i: usize| {
        let cells = rows.iter().map(|row| row.cells[i].text.chars().count());
        cells.max().unwrap_or(0).min(WIDEST)
    };
    titles
        .iter()
        .enumerate()
        .map(|(i, title)| title.len().max(widest(i)))
        .collect()
}

/// The columns that there is room for, with a space between: those of the highest rank go first.
fn fitting(tab: Tab, widths: &[usize], room: usize) -> Vec<usize> {
    let columns = tab.columns();
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let needed = |shown: &[usize]| {
        let sum: usize = shown.iter().map(|&i| widths[i] + 1).sum();
        sum.saturating_sub(1)
    };

    while needed(&shown) > room {
        let dispensable = shown
            .iter()
            .enumerate()
            .filter(|(_, i)| columns[**i].rank > 0);
        let Some((place, _)) = dispensable.max_by_key(|(_, i)| columns[**i].rank) else {
            break;
        };
        shown.remove(place);
    }
    shown
}
