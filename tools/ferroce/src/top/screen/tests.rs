//! The screen without a terminal: what keys do, and what is then to be seen.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::draw::{self, Theme};
use super::state::{State, Turn};
use crate::top::example::{Example, S, sample, two};
use crate::top::report::report;
use crate::top::tables::Tab;
use ferroce_control::objects::QpMoment;

/// The state after two samples, between which the first program has sent a megabyte.
fn state(examples: &[Example]) -> State {
    let mut state = State::new(Duration::from_secs(1));
    let (shown, before) = report(&sample(examples, 10 * S), None);
    state.take(shown);
    examples[0].row.sent(300, 1_000_000, 10 * S);
    examples[1].row.received(300, 1_000_000, 10 * S);
    state.take(report(&sample(examples, 11 * S), Some(&before)).0);
    state
}

/// The lines of the screen.
fn seen(state: &State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let theme = Theme::new(true);
    terminal
        .draw(|frame| draw::screen(frame, state, &theme))
        .unwrap();
    let buffer = terminal.backend().buffer().clone();
    let rows = buffer.content().chunks(width.into());
    rows.map(|row| {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned()
    })
    .collect()
}

fn press(state: &mut State, codes: &[KeyCode]) {
    for code in codes {
        let turn = state.key(KeyEvent::new(*code, KeyModifiers::NONE));
        assert_eq!(turn, Turn::Go);
    }
}

fn type_in(state: &mut State, text: &str) {
    for c in text.chars() {
        press(state, &[KeyCode::Char(c)]);
    }
}

fn has(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

#[test]
fn a_small_terminal_has_room_for_what_matters() {
    let examples = two();
    let lines = seen(&state(&examples), 80, 24);
    assert!(lines[0].starts_with("ferroce0  2 programs  2 QPs  TX 1.0M/s  RX 1.0M/s"));
    for wanted in ["0x010100", "RTS", "127.0.0.1", "1.0M", "HINTS"] {
        assert!(has(&lines, wanted), "{wanted}: {lines:#?}");
    }
    assert!(lines[23].starts_with("q quit"));

    // Whatever the size, it is drawn.
    for (width, height) in [(1, 1), (10, 3), (40, 10), (300, 100)] {
        seen(&state(&examples), width, height);
    }
    assert!(has(&seen(&state(&examples), 200, 24), "PEER QP"));
}

#[test]
fn each_table_has_its_rows() {
    let examples = two();
    let mut state = state(&examples);
    for (key, wanted) in [
        ('1', "ib_write_bw"),
        ('2', "0x020100"),
        ('3', "CAPACITY"),
        ('4', "1048576"),
        ('5', "ACTIVE"),
    ] {
        press(&mut state, &[KeyCode::Char(key)]);
        assert!(has(&seen(&state, 100, 24), wanted), "{key}");
    }
    press(&mut state, &[KeyCode::Tab]);
    assert_eq!(state.tab, Tab::Programs);
    press(&mut state, &[KeyCode::BackTab]);
    assert_eq!(state.tab, Tab::Ports);
}

#[test]
fn rows_are_sorted_by_a_column_and_turned_round() {
    let examples = two();
    let mut state = state(&examples);
    let first = |state: &State| state.rows()[0].cells[0].text.clone();
    assert_eq!(first(&state), "ib_write_bw");
    press(&mut state, &[KeyCode::Char('s')]);
    assert!(has(&seen(&state, 200, 24), "PROGRAM^"));
    press(&mut state, &[KeyCode::Char('r')]);
    assert_eq!(first(&state), "server");

    // Of numbers the largest come first.
    press(&mut state, &[KeyCode::Char('s')]);
    assert!(has(&seen(&state, 200, 24), "PIDv"));
    assert_eq!(first(&state), "server");
    press(&mut state, &[KeyCode::Char('r')]);
    assert_eq!(first(&state), "ib_write_bw");
    for _ in 2..=Tab::QueuePairs.columns().len() {
        press(&mut state, &[KeyCode::Char('s')]);
    }
    assert_eq!(state.sorted_by(), None);
}

#[test]
fn a_filter_leaves_the_rows_that_have_its_text() {
    let examples = two();
    let mut state = state(&examples);
    press(&mut state, &[KeyCode::Char('/')]);
    type_in(&mut state, "SERVEr");
    assert!(has(&seen(&state, 80, 24), "/SERVEr"));
    // Letters that are keys elsewhere.
    press(
        &mut state,
        &[KeyCode::Char('q'), KeyCode::Backspace, KeyCode::Enter],
    );
    let lines = seen(&state, 80, 24);
    assert!(
        has(&lines, "0x020100") && !has(&lines, "0x010100"),
        "{lines:#?}"
    );
    assert!(has(&lines, "filter: SERVEr"));
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(state.rows().len(), 2);

    press(&mut state, &[KeyCode::Char('/')]);
    type_in(&mut state, "nothing");
    assert!(has(&seen(&state, 80, 24), "None with this text."));
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(state.rows().len(), 2);
}

#[test]
fn the_selected_row_stays_selected_wherever_it_goes() {
    let examples = two();
    let mut state = state(&examples);
    press(&mut state, &[KeyCode::Down, KeyCode::Down]);
    assert_eq!(state.selected(&state.rows()), Some(1));
    press(&mut state, &[KeyCode::Char('r')]);
    assert_eq!(state.selected(&state.rows()), Some(0));
    press(
        &mut state,
        &[KeyCode::End, KeyCode::Down, KeyCode::PageDown],
    );
    assert_eq!(state.selected(&state.rows()), Some(1));
    press(&mut state, &[KeyCode::Home, KeyCode::Up, KeyCode::PageUp]);
    assert_eq!(state.selected(&state.rows()), Some(0));
}

#[test]
fn details_have_all_numbers_and_outlive_their_queue_pair() {
    let mut examples = two();
    examples[0].set_sending(3);
    examples[0].row.happened(QpMoment::SentAgain, 10 * S);
    let mut state = state(&examples);
    press(&mut state, &[KeyCode::Enter]);
    let lines = seen(&state, 100, 40);
    for wanted in [
        "0x010100, RC, RTS, port 1, of ib_write_bw, process 100, slot 1",
        "0x020100 at 127.0.0.1, server, process 200, slot 2",
        "3 of 128 outstanding, into CQ 2",
        "300 packets, 300 a second, 1000000 bytes, the last 1.0s ago",
        "mtu 4096",
        "timeout 14, retry_cnt 7",
        "sends again",
        "sent 1.0M bytes a second, 1.0M at most",
        "unacknowledged from 0x00000a to 0x00000d",
    ] {
        assert!(has(&lines, wanted), "{wanted}: {lines:#?}");
    }
    // All of it has room where the keys say how to see the rest.
    press(&mut state, &[KeyCode::Down]);
    assert!(!has(&seen(&state, 80, 24), "RC, RTS, port 1"));

    let gone = [Example::new(2, 200, "server", 1)];
    state.take(report(&sample(&gone, 12 * S), None).0);
    assert!(has(&seen(&state, 80, 24), "0x010100 is no more"));
    press(&mut state, &[KeyCode::Esc]);
    assert!(has(&seen(&state, 80, 24), "0x020100"));
}

#[test]
fn a_program_leads_to_its_queue_pairs() {
    let examples = two();
    let mut state = state(&examples);
    press(
        &mut state,
        &[KeyCode::Char('1'), KeyCode::Down, KeyCode::Down],
    );
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!((state.tab, state.filter.as_str()), (Tab::QueuePairs, "200"));
    assert_eq!(state.rows().len(), 1);
}

#[test]
fn what_is_wrong_is_seen_with_colours_and_without() {
    let mut examples = two();
    examples[0].set_state(6);
    let state = state(&examples);
    for (colours, colour) in [(true, Color::Red), (false, Color::Reset)] {
        let mut terminal = Terminal::new(TestBackend::new(120, 10)).unwrap();
        let theme = Theme::new(colours);
        terminal
            .draw(|frame| draw::screen(frame, &state, &theme))
            .unwrap();
        let cell = &terminal.backend().buffer()[(0, 3)];
        assert_eq!((cell.symbol(), cell.fg), ("i", colour));
    }
    let lines = seen(&state, 120, 10);
    assert!(has(&lines, "1 QPs with hints") && has(&lines, "error"));
}

#[test]
fn trouble_help_and_pause_are_told_and_keys_end_or_stop_it() {
    let examples = two();
    let mut state = state(&examples);
    state.fail("no ferroced answers".to_owned());
    let lines = seen(&state, 80, 24);
    assert!(has(&lines, "no ferroced answers") && has(&lines, "0x010100"));

    press(&mut state, &[KeyCode::Char('h')]);
    assert!(has(&seen(&state, 80, 24), "sort by the next column"));
    press(&mut state, &[KeyCode::Char('x'), KeyCode::Char('p')]);
    assert!(state.paused && seen(&state, 80, 24)[0].ends_with("paused"));

    let quit = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    assert_eq!(state.key(quit), Turn::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.key(interrupt), Turn::Quit);
    let suspend = KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL);
    assert_eq!(state.key(suspend), Turn::Suspend);
}
