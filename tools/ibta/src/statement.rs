//! Numbers of compliance statements and of sections, in whatever way they are written.
//!
//! Code and tests write `C14-27`, the test specification `v1c14-027`, ids `C14_027`; whoever looks
//! for one may write any of these.

/// A number in one way of writing: `c14-27`, `o14-13.1`, `oa19-14` of an annex, or `9.7.6` for a
/// section; what follows a `#` is an assertion's own. `None` if it is no such number.
pub fn canonical(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let text = text.split('#').next()?;
    let text = text.strip_prefix("v1").unwrap_or(text);
    match text.strip_prefix(['c', 'o']) {
        Some(rest) => {
            let (chapter, number) = rest.split_once(['-', '_'])?;
            let annex = if chapter.starts_with('a') { "a" } else { "" };
            let (chapter, number) = (plain(&chapter[annex.len()..])?, plain(number)?);
            (!chapter.contains('.')).then(|| format!("{}{annex}{chapter}-{number}", &text[..1]))
        }
        None => {
            let section = plain(text.strip_prefix('s').unwrap_or(text))?;
            section.contains('.').then_some(section)
        }
    }
}

/// Decimal numbers between dots, without leading zeros.
fn plain(text: &str) -> Option<String> {
    let parts: Option<Vec<String>> = text
        .split('.')
        .map(|part| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let number: u32 = digits.then(|| part.parse().ok()).flatten()?;
            Some(number.to_string())
        })
        .collect();
    Some(parts?.join("."))
}

/// The statement that an assertion of the specification's is about, as code writes it: `C14-27` of
/// `v1c14-027#01`. `None` of assertions that are the project's own.
pub fn of_assertion(assertion: &str) -> Option<String> {
    if !assertion.starts_with("v1c") && !assertion.starts_with("v1o") {
        return None;
    }
    let number = canonical(assertion)?;
    Some(match number.strip_prefix('c') {
        Some(rest) => format!("C{rest}"),
        None => number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_known_in_all_its_spellings() {
        for (text, due) in [
            ("C14-27", "c14-27"),
            ("C14-027", "c14-27"),
            ("c14_027", "c14-27"),
            ("v1c14-027#01.02", "c14-27"),
            ("V1C14-024.1.1", "c14-24.1.1"),
            ("o14-13", "o14-13"),
            ("oA19-14", "oa19-14"),
            ("O11-006.1.2", "o11-6.1.2"),
            ("o14-13.1#response", "o14-13.1"),
            ("9.7.6", "9.7.6"),
            ("s9.7.6#01", "9.7.6"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(due), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in [
            "",
            "9",
            "C14",
            "C14-",
            "C14-x",
            "C-27",
            "C1.4-27",
            "C09_060_09",
            "C14_024_06_CA_04",
            "c09-060:send-partly",
            "9..6",
            "9.7.",
            "+9.7",
            "C14-99999999999",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn an_assertion_of_the_specification_names_its_statement() {
        assert_eq!(of_assertion("v1c14-027#01").as_deref(), Some("C14-27"));
        assert_eq!(of_assertion("v1o14-013.1#01").as_deref(), Some("o14-13.1"));
        assert_eq!(of_assertion("c09-060:send-partly"), None);
        assert_eq!(of_assertion("s9.7.6#01"), None);
    }
}
