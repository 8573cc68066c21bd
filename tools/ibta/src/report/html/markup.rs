//! Text as it may stand in the page.

use std::fmt::{Display, Formatter, Result, Write};
use std::time::Duration;

/// Any text, in elements and in quoted attributes. What a device sends comes to stand there.
pub(super) struct Text<T>(pub T);

impl<T: Display> Display for Text<T> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        struct Escaping<'a, 'b>(&'a mut Formatter<'b>);

        impl Write for Escaping<'_, '_> {
            fn write_str(&mut self, text: &str) -> Result {
                for letter in text.chars() {
                    match letter {
                        '&' => self.0.write_str("&amp;")?,
                        '<' => self.0.write_str("&lt;")?,
                        '>' => self.0.write_str("&gt;")?,
                        '"' => self.0.write_str("&quot;")?,
                        '\'' => self.0.write_str("&#39;")?,
                        // No page may have these, not even escaped.
                        c if c.is_control() && c != '\n' && c != '\t' => {
                            self.0.write_char('\u{fffd}')?;
                        }
                        other => self.0.write_char(other)?,
                    }
                }

                Ok(())
            }
        }

        write!(Escaping(out), "{}", self.0)
    }
}

/// A time as people read it: `0`, `12.3 µs`, `4.096 ms`, `1.074 s`.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match time.as_nanos() {
        0 => "0".to_owned(),
        1..1_000_000 => format!("{:.1} µs", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.3} ms", seconds * 1e3),
        _ => format!("{seconds:.3} s"),
    }
}

/// The first letters of a text, with an ellipsis where that is not all.
pub(super) fn short(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_text_is_none_in_the_page() {
        let text = Text("<script>\"a\" & 'b'\u{1b}").to_string();
        assert_eq!(
            text,
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\u{fffd}"
        );
    }

    #[test]
    fn times_have_their_unit() {
        let seen = [0, 12_300, 4_096_000, 1_073_741_824].map(|ns| time(Duration::from_nanos(ns)));
        assert_eq!(seen, ["0", "12.3 µs", "4.096 ms", "1.074 s"]);
    }

    #[test]
    fn a_long_text_ends_with_an_ellipsis() {
        assert_eq!(short("äöü", 3), "äöü");
        assert_eq!(short("äöüß", 3), "äöü…");
    }
}
