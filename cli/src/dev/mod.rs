//! dev
pub mod supervisor;
pub fn command() -> clap::Command {
    crate::arg::command("dev", "d")
}
pub fn run(_: &crate::Context, _: &clap::ArgMatches) -> anyhow::Result<u8> {
    Ok(0)
}
