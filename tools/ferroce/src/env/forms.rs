//! How variables are written for who reads them: a shell, a program, GitHub's runner, direnv.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::Variable;
use crate::error::Error;
use crate::show::pretty;

/// What sh and its descendants evaluate (dash, bash, zsh, ksh). Any byte may be in a value.
pub(super) fn shell(variables: &[Variable]) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in variables {
        match value {
            Some(value) => {
                text.extend_from_slice(format!("export {name}=").as_bytes());
                quote(value, b"", &mut text);
            }
            None => text.extend_from_slice(format!("unset {name}").as_bytes()),
        }
        text.extend_from_slice(b";\n");
    }
    text
}

/// What fish evaluates, from its standard input. Any byte may be in a value.
pub(super) fn fish(variables: &[Variable]) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in variables {
        match value {
            Some(value) => {
                text.extend_from_slice(format!("set -gx {name} ").as_bytes());
                quote(value, b"\\", &mut text);
            }
            None => text.extend_from_slice(format!("set -e {name}").as_bytes()),
        }
        text.extend_from_slice(b";\n");
    }
    text
}

/// What csh and tcsh evaluate. It comes to them in words, so a statement has to say where it ends,
/// and no value can have an end of line.
pub(super) fn csh(variables: &[Variable]) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    for (name, value) in variables {
        match value {
            Some(value) => {
                one_line(name, value)?;
                text.extend_from_slice(format!("setenv {name} ").as_bytes());
                // History is looked for between quotes, too.
                quote(value, b"!", &mut text);
            }
            None => text.extend_from_slice(format!("unsetenv {name}").as_bytes()),
        }
        text.extend_from_slice(b";\n");
    }
    Ok(text)
}

/// Between single quotes nothing means anything but the quote itself, and what a shell has in
/// `others`, which goes outside of them, too.
fn quote(value: &OsStr, others: &[u8], text: &mut Vec<u8>) {
    text.push(b'\'');
    for &byte in value.as_bytes() {
        if byte == b'\'' || others.contains(&byte) {
            text.extend_from_slice(&[b'\'', b'\\', byte, b'\'']);
        } else {
            text.push(byte);
        }
    }
    text.push(b'\'');
}

/// An object; `null` is what is no longer set.
pub(super) fn json(variables: &[Variable]) -> Result<Vec<u8>, Error> {
    let mut object = serde_json::Map::new();
    for (name, value) in variables {
        let value = value.as_deref().map(|value| unicode(name, value));
        object.insert((*name).to_owned(), value.transpose()?.into());
    }
    pretty(&object).map(String::into_bytes)
}

/// Lines for the file that `$GITHUB_ENV` names.
pub(super) fn github(variables: &[Variable]) -> Result<Vec<u8>, Error> {
    let mut text = String::new();
    for (name, value) in values(variables) {
        let value = one_line(name, value)?;
        text += &format!("{name}={value}\n");
    }
    Ok(text.into())
}

/// Lines for a `.env` file: between single quotes a value is taken as it is, by all who read such
/// files, and one that has such a quote itself goes between double ones.
pub(super) fn dotenv(variables: &[Variable]) -> Result<Vec<u8>, Error> {
    let mut text = String::new();
    for (name, value) in values(variables) {
        let value = one_line(name, value)?;
        if !value.contains('\'') {
            text += &format!("{name}='{value}'\n");
            continue;
        }

        let escaped: String = value
            .chars()
            .flat_map(|c| {
                let special = matches!(c, '"' | '\\' | '$' | '`');
                special.then_some('\\').into_iter().chain([c])
            })
            .collect();
        text += &format!("{name}=\"{escaped}\"\n");
    }

    Ok(text.into())
}

/// Those that are set.
fn values(variables: &[Variable]) -> impl Iterator<Item = (&'static str, &OsStr)> {
    variables
        .iter()
        .filter_map(|(name, value)| Some((*name, value.as_deref()?)))
}

fn unicode<'a>(name: &str, value: &'a OsStr) -> Result<&'a str, Error> {
    value.to_str().ok_or_else(|| Error::Unwritable {
        name: name.to_owned(),
        why: "is not UTF-8",
    })
}

fn one_line<'a>(name: &str, value: &'a OsStr) -> Result<&'a str, Error> {
    let text = unicode(name, value)?;
    match text.contains(['\n', '\r']) {
        false => Ok(text),
        true => Err(Error::Unwritable {
            name: name.to_owned(),
            why: "has more than one line",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn one(value: &[u8]) -> [Variable; 1] {
        [("V", Some(OsString::from_vec(value.to_vec())))]
    }

    #[test]
    fn every_form_quotes_as_its_readers_do() {
        let text = |text: Vec<u8>| String::from_utf8(text).unwrap();
        let odd = one(br#"/a b/$x`y`"z"\'"#);
        assert_eq!(text(shell(&odd)), "export V='/a b/$x`y`\"z\"\\'\\''';\n");
        let quoted = r#"'/a b/$x`y`"z"'\\''\''"#;
        assert_eq!(text(fish(&odd)), format!("set -gx V {quoted}';\n"));
        let quoted = r"'a'\'''\!'\$b'";
        let csh = csh(&one(br"a'!\$b")).unwrap();
        assert_eq!(text(csh), format!("setenv V {quoted};\n"));
        assert_eq!(
            text(json(&odd).unwrap()),
            "{\n  \"V\": \"/a b/$x`y`\\\"z\\\"\\\\'\"\n}\n"
        );
        assert_eq!(text(github(&odd).unwrap()), "V=/a b/$x`y`\"z\"\\'\n");
        assert_eq!(
            text(dotenv(&odd).unwrap()),
            "V=\"/a b/\\$x\\`y\\`\\\"z\\\"\\\\'\"\n"
        );
        assert_eq!(text(dotenv(&one(b"a $b")).unwrap()), "V='a $b'\n");
    }

    #[test]
    fn what_a_form_cannot_hold_is_refused() {
        let lines = one(b"a\nB=c");
        let refused = [
            github(&lines),
            dotenv(&lines),
            csh(&lines),
            json(&one(b"\xff")),
        ];
        for refused in refused {
            let error = refused.unwrap_err().to_string();
            assert!(error.starts_with("V "), "{error}");
        }
        assert_eq!(shell(&one(b"\xff\n")), b"export V='\xff\n';\n");
    }

    #[test]
    fn what_is_not_set_is_unset() {
        let variables = [("V", None)];
        assert_eq!(shell(&variables), b"unset V;\n");
        assert_eq!(fish(&variables), b"set -e V;\n");
        assert_eq!(csh(&variables).unwrap(), b"unsetenv V;\n");
        assert_eq!(json(&variables).unwrap(), b"{\n  \"V\": null\n}\n");
    }
}
