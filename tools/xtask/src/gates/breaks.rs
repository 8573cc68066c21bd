//! What the gates have to notice: each thing that is broken, and what its gate says of it.

use Change::{Advisory, Append, Commit, Replace};

/// What is broken, and who has to notice.
pub(super) struct Break {
    /// The case, as `cargo xtask test` takes it.
    pub(super) gate: &'static str,
    /// What a person would have done.
    pub(super) what: &'static str,
    pub(super) change: Change,
    /// What the failing case says, among other things.
    pub(super) said: &'static str,
}

/// How a file is changed, below the root.
pub(super) enum Change {
    Append(&'static str, &'static str),
    Replace(&'static str, &'static str, &'static str),
    /// A commit with this message, beside nothing else.
    Commit(&'static str),
    /// A dependency has a weakness: the database of advisories is one of our own, with this
    /// identifier in it and no other.
    Advisory(&'static str),
}

/// One for each gate, or more where it looks at more than one thing.
pub(super) const BREAKS: &[Break] = &[
    Break {
        gate: "lint/rustfmt",
        what: "a line that rustfmt would write otherwise",
        change: Append("provider/wire/src/lib.rs", "const  BROKEN : u8=0;\n"),
        said: "BROKEN",
    },
    Break {
        gate: "lint/clippy",
        what: "an unsafe block that does not say why it holds",
        change: Append(
            "provider/control/src/lib.rs",
            "/// Broken.\npub fn broken(at: *const u8) -> u8 {\n    unsafe { at.read() }\n}\n",
        ),
        said: "unsafe block missing a safety comment",
    },
    Break {
        gate: "lint/rustdoc",
        what: "a link of the documentation to nothing",
        change: Append(
            "provider/wire/src/lib.rs",
            "/// See [`nowhere`].\npub const BROKEN: u8 = 0;\n",
        ),
        said: "unresolved link to `nowhere`",
    },
    Break {
        gate: "lint/declared",
        what: "a function that the declared Rust version does not have (1.91)",
        change: Append(
            "provider/wire/src/lib.rs",
            "/// Broken.\npub const BROKEN: std::time::Duration = std::time::Duration::from_mins(1);\n",
        ),
        said: "from_mins",
    },
    Break {
        gate: "lint/fuzz targets",
        what: "a fuzz target that calls a function that is gone",
        change: Append(
            "tests/fuzz/targets/cm.rs",
            "fn broken() {\n    ferroce_fuzz::gone();\n}\n",
        ),
        said: "gone",
    },
    Break {
        gate: "lint/deny",
        what: "a crate under a licence that is not allowed",
        change: Replace(
            "provider/wire/Cargo.toml",
            "license.workspace = true",
            "license = \"GPL-3.0-only\"",
        ),
        said: "GPL-3.0-only",
    },
    Break {
        gate: "lint/advisories",
        what: "a dependency with a known weakness",
        change: Advisory("RUSTSEC-2000-9999"),
        said: "RUSTSEC-2000-9999",
    },
    Break {
        gate: "lint/aarch64",
        what: "something that does not compile for another architecture",
        change: Append(
            "provider/wire/src/lib.rs",
            "#[cfg(target_arch = \"aarch64\")]\ncompile_error!(\"broken\");\n",
        ),
        said: "error: broken",
    },
    Break {
        gate: "lint/musl",
        what: "something that does not compile for another C library",
        change: Append(
            "provider/wire/src/lib.rs",
            "#[cfg(target_env = \"musl\")]\ncompile_error!(\"broken\");\n",
        ),
        said: "error: broken",
    },
    Break {
        gate: "lint/links",
        what: "a link of a document to a heading that is not there",
        change: Append("README.md", "\n[broken](docs/architecture.md#nowhere)\n"),
        said: "no such heading",
    },
    Break {
        gate: "lint/pages",
        what: "a page of the architecture that has become long",
        change: Append("docs/architecture/exs.md", include_str!("breaks.rs")),
        said: "800 is the most",
    },
    Break {
        gate: "lint/features",
        what: "xtask asks less of a library than the product does",
        change: Replace(
            "tools/xtask/Cargo.toml",
            r#"version = "3", features = ["extra-traits", "visit-mut"]"#,
            r#"version = "3", features = ["extra-traits"]"#,
        ),
        said: "is built twice",
    },
    Break {
        gate: "lint/tables",
        what: "a skip that the document does not have",
        change: Append(
            "tests/system/src/harness/skips.toml",
            "\n[[skip]]\nwhen = \"always\"\nsays = \"broken\"\nwhy = \"broken\"\ntests = [\"test_broken\"]\n",
        ),
        said: "the table `skips` is not that of",
    },
    Break {
        gate: "lint/commits",
        what: "a commit that does not say why",
        change: Commit("wire: broken"),
        said: "there is no body that says why",
    },
    Break {
        gate: "lint/circles",
        what: "an import that makes a circle of files larger",
        change: Append("provider/engine/src/error.rs", "pub use crate::hca::Hca;\n"),
        said: "files import each other in a circle, where",
    },
    Break {
        gate: "lint/circles",
        what: "an import of all that a crate has, which makes a circle of files larger",
        change: Append("provider/transport/src/budget.rs", "use crate::*;\n"),
        said: "files import each other in a circle, where",
    },
    Break {
        gate: "lint/shape",
        what: "a comment that is wider than code may be",
        change: Append(
            "provider/wire/src/psn.rs",
            concat!(
                "// One that goes on and on, past what fits beside another file on a screen, ",
                "as nobody has wrapped it since it was written.\n"
            ),
        ),
        said: "columns, where 100 is the most",
    },
    Break {
        gate: "lint/shape",
        // In a crate that xtask is not built of.
        what: "a file that has become long",
        change: Append(
            "provider/engine/src/datapath/tx.rs",
            include_str!("breaks.rs"),
        ),
        said: "lines, where 400 is the most",
    },
    Break {
        gate: "lint/Python's types",
        what: "a number that is a text",
        change: Append("tools/python/ferroce/_views.py", "BROKEN: int = 'one'\n"),
        said: "Incompatible types in assignment",
    },
    Break {
        gate: "lint/Python's style",
        what: "an import that nobody uses",
        change: Replace(
            "tools/python/tests/test_faults.py",
            "import subprocess\n",
            "import os\nimport subprocess\n",
        ),
        said: "'os' imported but unused",
    },
    Break {
        gate: "unit",
        what: "an ICRC whose LRH is zeros instead of ones",
        change: Replace(
            "provider/wire/src/icrc.rs",
            "let mut h = [0xff; V4_LEN];",
            "let mut h = [0; V4_LEN];",
        ),
        said: "FAILED   unit/",
    },
];
