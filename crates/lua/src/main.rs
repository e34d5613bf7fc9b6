//! `cosy-lua`: runs the site's `job_submit.lua` for the controller. Nobody else has a use for it.

use std::process::ExitCode;

fn main() -> ExitCode {
    let done = cosy_lua::sandbox::enter()
        .and_then(|()| cosy_lua::serve::serve(std::io::stdin().lock(), std::io::stdout().lock()));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cosy-lua: {why}");
            ExitCode::FAILURE
        }
    }
}
