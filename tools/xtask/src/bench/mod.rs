//! stub
use std::path::Path;
pub fn run(_json: Option<&Path>, _quick: bool) -> anyhow::Result<()> {
    Ok(())
}
